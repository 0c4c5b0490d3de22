// SPDX-License-Identifier: Apache-2.0
// The bytes of the state file, once for both directions: little-endian, fixed widths, in the order
// of contracts/learned_state.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "learning/learned_state.h"

namespace llamalloc {

inline constexpr char kLearnedMagic[8] = {'l', 'l', 'm', 'l', 'e', 'a', 'r', 'n'};

inline constexpr uint8_t kDiffers = 0x80;  // beside a node's level

class LittleEndianOut {
 public:
  explicit LittleEndianOut(uint8_t* to) : at_(to) {}
  template <typename T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) *at_++ = static_cast<uint8_t>(uint64_t{value} >> 8 * i);
  }
  void bytes(const char* from, size_t count) {
    memcpy(at_, from, count);
    at_ += count;
  }
  void verdict(GateVerdict value) { number(static_cast<uint8_t>(value)); }
  void level(const LearnedNode& node) {
    number(static_cast<uint8_t>(node.level | (node.differs ? kDiffers : 0)));
  }
  const uint8_t* end() const { return at_; }

 private:
  uint8_t* at_;
};

class LittleEndianIn {
 public:
  explicit LittleEndianIn(const char* from) : at_(reinterpret_cast<const uint8_t*>(from)) {}
  template <typename T>
  void number(T& value) {
    uint64_t wide = 0;
    for (size_t i = 0; i < sizeof(T); ++i) wide |= uint64_t{*at_++} << 8 * i;
    value = static_cast<T>(wide);
  }
  void bytes(char* to, size_t count) {
    memcpy(to, at_, count);
    at_ += count;
  }
  void verdict(GateVerdict& value) { value = static_cast<GateVerdict>(*at_++); }
  void level(LearnedNode& node) {
    node.level = *at_ & (kDiffers - 1);
    node.differs = (*at_++ & kDiffers) != 0;
  }

 private:
  const uint8_t* at_;
};

// What stands in front, whatever the version is: magic and version.
struct LearnedStart {
  char magic[sizeof(kLearnedMagic)];
  uint32_t version;
  uint32_t nodes;
};

template <typename Io, typename Waste>
void lay_out_waste(Io& io, Waste& waste) {
  io.number(waste.rounds);
  io.number(waste.high);
  io.number(waste.low);
  io.number(waste.depth);
  io.number(waste.ratio);
}

template <typename Io, typename Start, typename Header>
void lay_out_header(Io& io, Start& start, Header& header) {
  io.bytes(start.magic, sizeof(start.magic));
  io.number(start.version);
  io.number(start.nodes);
  io.number(header.program);
  io.bytes(header.name, sizeof(header.name));
  io.number(header.runs);
  io.verdict(header.gate.verdict);
  io.number(header.gate.reversals);
  io.number(header.gate.peak);
  lay_out_waste(io, header.gate.blind);
  lay_out_waste(io, header.gate.placed);
}

template <typename Io, typename Node>
void lay_out_node(Io& io, Node& node, uint32_t version) {
  io.number(node.key);
  io.level(node);
  io.number(node.unseen);
  for (auto& count : node.evidence.deaths) io.number(count);
  for (auto& count : node.evidence.young) io.number(count);
  io.number(node.evidence.elders);
  if (version == 1) return;
  io.number(node.parent);
  io.number(node.word);
}

template <typename Io, typename Frame>
void lay_out_frame(Io& io, Frame& frame) {
  io.number(frame.code);
  io.number(frame.function.self);
  io.number(frame.function.before);
  io.number(frame.function.after);
  io.number(frame.call.callee);
  io.number(frame.call.ordinal);
  io.number(frame.call.count);
  io.number(frame.offset);
  io.number(frame.build);
}

// Behind nodes and frames; the checksum follows.
template <typename Io, typename Modules, typename Count>
void lay_out_tail(Io& io, Modules& modules, Count&& frames) {
  io.number(modules);
  io.number(frames);
}

}  // namespace llamalloc
