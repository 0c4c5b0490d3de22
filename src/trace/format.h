// SPDX-License-Identifier: Apache-2.0
// The bytes of a trace file: contracts/trace_format.md as code, shared by who writes and who reads.
//
//   file   [ FileHeader | chunk | chunk | ... ]
//   chunk  [ ChunkHeader | payload ]      the payload raw, or as one zstd frame
//
// Every chunk is checksummed and read without any other, except that events name stacks, stacks
// name frames and names name modules by number. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace llamalloc::trace {

inline constexpr char kFileMagic[9] = "llmtrace";
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kChunkMagic = 0x4B43544C;  // "LTCK"
inline constexpr uint32_t kMaxPayload = 16u << 20;   // bytes of a payload, stored or raw
inline constexpr uint32_t kLateStream = 0xFFFFFFFE;  // of threads past their last exit handler

enum class ChunkKind : uint8_t {
  observed = 1,  // events by address, one stream a thread
  resolved = 2,  // events by object number, one stream a file
  frames = 3,
  stacks = 4,
  modules = 5,
  names = 6,
  about = 7,  // the command line, as in /proc/PID/cmdline
  end = 8,    // the recording ended as it should
};
enum class Encoding : uint8_t { raw = 0, zstd = 1 };

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t pid;
  uint64_t wall_ns;  // UTC, when the trace began
  uint32_t reserved;
  uint32_t checksum;  // of the bytes before it
};
static_assert(sizeof(FileHeader) == 32);

struct ChunkHeader {
  uint32_t magic;
  ChunkKind kind;
  Encoding encoding;
  uint16_t reserved;
  uint32_t stored_bytes;  // of the payload, as it stands in the file
  uint32_t raw_bytes;     // of the payload, decoded
  uint32_t count;         // records in the payload
  uint32_t stream;        // observed, resolved: whose events; else 0
  uint64_t first_time;    // of the events; else 0
  uint64_t last_time;
  uint32_t header_checksum;  // of the bytes before it
  uint32_t checksum;         // of the bytes before it and the stored payload
};
static_assert(sizeof(ChunkHeader) == 48);

// The low five bits of a record's first byte hold the alignment, the high three the operation.
enum class Op : uint8_t {
  allocate = 0,
  free = 1,
  resize_begin = 2,   // observed only: the old address is given up
  resize_end = 3,     // observed: the new address is there; resolved: the whole resize
  resize_failed = 4,  // observed only: the old address stays
  thread = 5,         // the events that follow are of this thread
};
inline constexpr uint8_t kAlignmentBits = 5;
inline constexpr uint8_t kWideAlignment = 31;  // the alignment follows as a byte
inline constexpr size_t kMaxRecord = 48;       // bytes of any event record, with room to spare
inline constexpr size_t kMaxVarint = 10;

// What every checksum here is: 64 bits folded to 32, eight bytes a step, the last padded with zero.
class Checksum {
 public:
  void add(const void* data, size_t bytes) {
    const char* p = static_cast<const char*>(data);
    for (; bytes >= 8; p += 8, bytes -= 8) step(load(p, 8));
    if (bytes > 0) step(load(p, bytes));
  }
  uint32_t value() const { return static_cast<uint32_t>(state_ ^ state_ >> 32); }

 private:
  static uint64_t load(const char* p, size_t bytes) {
    uint64_t word = 0;
    memcpy(&word, p, bytes);
    return word;
  }
  void step(uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15ull;
    state_ ^= state_ >> 29;
  }
  uint64_t state_ = 0x2545F4914F6CDD1Dull;
};

inline uint32_t checksum_of(const FileHeader& header) {
  Checksum sum;
  sum.add(&header, offsetof(FileHeader, checksum));
  return sum.value();
}
inline uint32_t header_checksum_of(const ChunkHeader& header) {
  Checksum sum;
  sum.add(&header, offsetof(ChunkHeader, header_checksum));
  return sum.value();
}
inline uint32_t checksum_of(const ChunkHeader& header, const void* stored) {
  Checksum sum;
  sum.add(&header, offsetof(ChunkHeader, checksum));
  sum.add(stored, header.stored_bytes);
  return sum.value();
}

// Completes a header of the kind, for a payload that is stored as it is.
inline ChunkHeader make_chunk_header(ChunkKind kind, const void* payload, size_t bytes,
                                     uint32_t count) {
  ChunkHeader header{};
  header.magic = kChunkMagic;
  header.kind = kind;
  header.stored_bytes = header.raw_bytes = static_cast<uint32_t>(bytes);
  header.count = count;
  header.header_checksum = header_checksum_of(header);
  header.checksum = checksum_of(header, payload);
  return header;
}

inline FileHeader make_file_header(uint32_t pid, uint64_t wall_ns) {
  FileHeader header{};
  memcpy(header.magic, kFileMagic, sizeof(header.magic));
  header.version = kVersion;
  header.pid = pid;
  header.wall_ns = wall_ns;
  header.checksum = checksum_of(header);
  return header;
}

// LEB128. `out` has kMaxVarint bytes of room; returns the end.
inline uint8_t* put_varint(uint8_t* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<uint8_t>(value | 0x80);
  *out++ = static_cast<uint8_t>(value);
  return out;
}
inline constexpr uint64_t zigzag(uint64_t difference) {
  return difference << 1 ^ (0 - (difference >> 63));
}
inline constexpr uint64_t unzigzag(uint64_t value) {
  return value >> 1 ^ (0 - (value & 1));
}

// Reads a payload; past its end, or after a malformed number, ok() is false and all reads give 0.
class PayloadReader {
 public:
  PayloadReader() = default;
  PayloadReader(const void* data, size_t bytes)
      : at_(static_cast<const uint8_t*>(data)), end_(at_ + bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  uint8_t byte() { return at_ != end_ ? *at_++ : fail(); }
  uint64_t varint() {
    if (at_ != end_ && *at_ < 0x80) [[likely]]
      return *at_++;
    return long_varint();
  }
  // The next bytes in place, or null.
  const char* bytes(size_t count) {
    if (count > left()) return fail(), nullptr;
    const char* found = reinterpret_cast<const char*>(at_);
    at_ += count;
    return found;
  }

 private:
  uint8_t fail() {
    ok_ = false;
    at_ = end_;
    return 0;
  }
  uint64_t long_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) return fail();
      const uint8_t byte = *at_++;
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return fail();
  }

  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
  bool ok_ = true;
};

}  // namespace llamalloc::trace
