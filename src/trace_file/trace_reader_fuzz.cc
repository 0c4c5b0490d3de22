// SPDX-License-Identifier: Apache-2.0
// Bytes as a trace: as they are, and with checksums made right, so that what lies behind is
// reached. What reads must be a valid sequence: numbers in order, nothing freed twice, time never
// falling.
#include <cstdlib>
#include <string>
#include <vector>

#include "trace_file/trace_reader.h"

namespace {

using namespace llamalloc::trace;

void require(bool condition) {
  if (!condition) abort();
}

void read(const std::string& bytes) {
  std::string error;
  auto file = ChunkFile::over(bytes.data(), bytes.size(), "fuzz", &error);
  if (file == nullptr) return require(!error.empty());
  auto reader = TraceReader::over(std::move(file), &error);
  if (reader == nullptr) return require(!error.empty());
  std::vector<Event> events(100);
  std::vector<bool> live;
  uint64_t time = 0;
  while (const size_t count = reader->read(events))
    for (size_t i = 0; i < count; ++i) {
      const Event& event = events[i];
      require(event.time >= time && event.stack < reader->tables().stacks.size());
      require(event.alignment_log2 < 64 && event.thread < reader->threads());
      time = event.time;
      if (event.kind == EventKind::allocate) {
        require(event.object == live.size());
        live.push_back(true);
        continue;
      }
      require(event.object < live.size() && live[event.object]);
      if (event.kind == EventKind::free) live[event.object] = false;
    }
}

std::string mended(std::string bytes) {
  if (bytes.size() < sizeof(FileHeader)) return bytes;
  const FileHeader header = make_file_header(1, 2);
  memcpy(bytes.data(), &header, sizeof(header));
  for (size_t at = sizeof(header); at + sizeof(ChunkHeader) <= bytes.size();) {
    ChunkHeader chunk;
    memcpy(&chunk, &bytes[at], sizeof(chunk));
    const size_t left = bytes.size() - at - sizeof(chunk);
    chunk.magic = kChunkMagic;
    chunk.kind = static_cast<ChunkKind>(1 + static_cast<uint8_t>(chunk.kind) % 8);
    chunk.encoding = static_cast<Encoding>(static_cast<uint8_t>(chunk.encoding) % 2);
    chunk.stored_bytes = static_cast<uint32_t>(std::min<size_t>(chunk.stored_bytes % 512, left));
    chunk.raw_bytes %= 4096;
    chunk.header_checksum = header_checksum_of(chunk);
    chunk.checksum = checksum_of(chunk, &bytes[at] + sizeof(chunk));
    memcpy(&bytes[at], &chunk, sizeof(chunk));
    at += sizeof(chunk) + chunk.stored_bytes;
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  read(mended(bytes));
  return 0;
}
