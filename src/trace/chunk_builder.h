// SPDX-License-Identifier: Apache-2.0
// Fills one chunk of events after another in memory that the caller gives.
//
//   begin(thread, ...) --> event, event, ... --> is_full() --> seal(): header + payload, to be
//   written as they stand --> begin(...)
//
// Time and address are coded as differences to the record before; the first differs from the
// header's first_time, and from address 0. Invariant: size() <= room; a chunk that is not full
// takes any one record more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "trace/format.h"

namespace llamalloc::trace {

class ChunkBuilder {
 public:
  // The kind is observed or resolved; memory: room bytes, at least kSmallest.
  static constexpr size_t kSmallest = sizeof(ChunkHeader) + 4 * kMaxRecord;
  void use(void* memory, size_t room, ChunkKind kind, uint32_t stream) {
    memory_ = static_cast<uint8_t*>(memory);
    limit_ = memory_ + room - 2 * kMaxRecord;
    header_ = {};
    header_.magic = kChunkMagic;
    header_.kind = kind;
    header_.stream = stream;
    at_ = nullptr;
  }

  bool is_empty() const { return at_ == nullptr; }
  bool is_full() const { return at_ >= limit_; }
  uint32_t stream() const { return header_.stream; }
  size_t size() const { return at_ ? static_cast<size_t>(at_ - memory_) : 0; }

  // next_object: resolved only, the number that the next allocation gets.
  void begin(uint32_t thread, uint64_t time, uint64_t next_object = 0) {
    header_.count = 0;
    header_.first_time = header_.last_time = time;
    address_ = 0;
    thread_ = thread;
    next_object_ = next_object;
    at_ = put_varint(memory_ + sizeof(ChunkHeader), thread);
    if (header_.kind == ChunkKind::resolved) at_ = put_varint(at_, next_object);
  }

  // The records that follow are of this thread. At most one before each record.
  void change_thread(uint32_t thread) {
    if (thread == thread_) return;
    *at_++ = static_cast<uint8_t>(Op::thread) << kAlignmentBits;
    at_ = put_varint(at_, thread);
    thread_ = thread;
  }

  // Observed. Times never fall; addresses are multiples of 16.
  void allocate(uint64_t time, uintptr_t address, uint64_t size, uint32_t stack, uint8_t align) {
    placed(Op::allocate, time, address, size, stack, align);
  }
  void free(uint64_t time, uintptr_t address) { at_address(Op::free, time, address); }
  void resize_begin(uint64_t time, uintptr_t address) {
    at_address(Op::resize_begin, time, address);
  }
  void resize_end(uint64_t time, uintptr_t address, uint64_t size, uint32_t stack) {
    placed(Op::resize_end, time, address, size, stack, 4);
  }
  void resize_failed(uint64_t time, uintptr_t address) {
    at_address(Op::resize_failed, time, address);
  }

  // Resolved. The object of an allocation is the next number.
  void allocate_next(uint32_t thread, uint64_t time, uint64_t size, uint32_t stack, uint8_t align) {
    change_thread(thread);
    uint8_t* p = head(at_, Op::allocate, time, align);
    p = put_varint(put_varint(p, size), stack);
    ++next_object_;
    end(p, time);
  }
  void free_object(uint32_t thread, uint64_t time, uint64_t object) {
    change_thread(thread);
    end(put_varint(head(at_, Op::free, time, 0), next_object_ - object), time);
  }
  void resize_object(uint32_t thread, uint64_t time, uint64_t object, uint64_t size, uint32_t stack,
                     uint8_t align) {
    change_thread(thread);
    uint8_t* p = put_varint(head(at_, Op::resize_end, time, align), next_object_ - object);
    end(put_varint(put_varint(p, size), stack), time);
  }
  uint64_t next_object() const { return next_object_; }

  // Completes the header. What is to be written: data(), size() bytes.
  void seal() {
    header_.stored_bytes = header_.raw_bytes = static_cast<uint32_t>(size() - sizeof(ChunkHeader));
    header_.header_checksum = header_checksum_of(header_);
    header_.checksum = checksum_of(header_, memory_ + sizeof(ChunkHeader));
    memcpy(memory_, &header_, sizeof(header_));
  }
  const uint8_t* data() const { return memory_; }
  const ChunkHeader& header() const { return header_; }
  void clear() { at_ = nullptr; }

 private:
  uint8_t* head(uint8_t* p, Op op, uint64_t time, uint8_t align) {
    const uint8_t low = align < kWideAlignment ? align : kWideAlignment;
    *p++ = static_cast<uint8_t>(static_cast<uint8_t>(op) << kAlignmentBits | low);
    if (low == kWideAlignment) *p++ = align;
    return put_varint(p, time - header_.last_time);
  }
  uint8_t* put_address(uint8_t* p, uintptr_t address) {
    const uint64_t units = address >> 4;
    p = put_varint(p, zigzag(units - address_));
    address_ = units;
    return p;
  }
  void at_address(Op op, uint64_t time, uintptr_t address) {
    end(put_address(head(at_, op, time, 0), address), time);
  }
  void placed(Op op, uint64_t time, uintptr_t address, uint64_t size, uint32_t stack,
              uint8_t align) {
    uint8_t* p = put_address(head(at_, op, time, align), address);
    end(put_varint(put_varint(p, size), stack), time);
  }
  void end(uint8_t* p, uint64_t time) {
    at_ = p;
    header_.last_time = time;
    ++header_.count;
  }

  uint8_t* memory_ = nullptr;
  uint8_t* at_ = nullptr;  // null: no chunk was begun
  uint8_t* limit_ = nullptr;
  ChunkHeader header_{};
  uint64_t address_ = 0;  // of the record before, in units of 16
  uint32_t thread_ = 0;
  uint64_t next_object_ = 0;
};

}  // namespace llamalloc::trace
