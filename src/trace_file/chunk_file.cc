// SPDX-License-Identifier: Apache-2.0
#include "trace_file/chunk_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>

namespace llamalloc::trace {
namespace {

constexpr uint32_t kZstdMagic = 0xFD2FB528;

bool starts_with_zstd(const char* data, uint64_t bytes) {
  uint32_t magic;
  if (bytes < sizeof(magic)) return false;
  memcpy(&magic, data, sizeof(magic));
  return magic == kZstdMagic;
}

}  // namespace

ChunkFile::~ChunkFile() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

std::unique_ptr<ChunkFile> ChunkFile::open(const std::string& path, std::string* error) {
  std::unique_ptr<ChunkFile> file(new ChunkFile);
  file->name_ = path;
  const bool good = file->map(path, error) &&
                    (!starts_with_zstd(file->data_, file->bytes_) || file->unpack(error)) &&
                    file->index(error);
  return good ? std::move(file) : nullptr;
}

std::unique_ptr<ChunkFile> ChunkFile::over(const char* data, size_t bytes, const std::string& name,
                                           std::string* error) {
  std::unique_ptr<ChunkFile> file(new ChunkFile);
  file->name_ = name;
  file->data_ = data;
  file->bytes_ = bytes;
  return file->index(error) ? std::move(file) : nullptr;
}

bool ChunkFile::map(const std::string& path, std::string* error) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe has no writer
  struct stat status{};
  const bool found = fd >= 0 && fstat(fd, &status) == 0;
  if (!found) *error = path + ": " + strerror(errno);
  if (found && !S_ISREG(status.st_mode)) *error = path + ": not a regular file";
  if (found && S_ISREG(status.st_mode)) {
    mapped_bytes_ = static_cast<size_t>(status.st_size);
    if (mapped_bytes_ > 0) mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping_ == MAP_FAILED) {
      mapping_ = nullptr;
      *error = path + ": " + strerror(errno);
    }
  }
  if (fd >= 0) ::close(fd);
  data_ = static_cast<const char*>(mapping_);
  bytes_ = mapping_ ? mapped_bytes_ : 0;
  return error->empty();
}

bool ChunkFile::unpack(std::string* error) {
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  ZSTD_inBuffer in{data_, bytes_, 0};
  size_t used = 0;
  while (in.pos < in.size) {
    if (unpacked_.size() - used < (1u << 20)) unpacked_.resize(2 * used + (4u << 20));
    ZSTD_outBuffer out{unpacked_.data() + used, unpacked_.size() - used, 0};
    const size_t result = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(result)) {
      *error = name_ + ": byte " + std::to_string(in.pos) + ": " + ZSTD_getErrorName(result) +
               "; the compressed file is damaged";
      return false;
    }
    used += out.pos;
    if (in.pos == in.size && out.pos < out.size) break;
  }
  unpacked_.resize(used);
  data_ = unpacked_.data();
  bytes_ = used;
  return true;
}

std::string ChunkFile::damaged(uint64_t offset, const std::string& what) const {
  return name_ + ": byte " + std::to_string(offset) + ": " + what +
         "; the trace is damaged, record it again";
}

bool ChunkFile::index(std::string* error) {
  if (bytes_ >= sizeof(header_)) memcpy(&header_, data_, sizeof(header_));
  if (bytes_ < sizeof(header_) || memcmp(header_.magic, kFileMagic, sizeof(header_.magic)) != 0)
    *error = name_ + ": not a trace; make one: llamalloc trace -o t.trace -- ./server";
  else if (header_.version != kVersion)
    *error = name_ + ": a trace of version " + std::to_string(header_.version) +
             "; this llamalloc reads version " + std::to_string(kVersion);
  else if (checksum_of(header_) != header_.checksum)
    *error = damaged(0, "the file header's checksum is wrong");
  uint64_t at = sizeof(header_);
  while (error->empty() && at < bytes_) {
    Chunk chunk{};
    lost_bytes_ = bytes_ - at;
    if (lost_bytes_ < sizeof(ChunkHeader)) break;
    memcpy(&chunk.header, data_ + at, sizeof(ChunkHeader));
    chunk.offset = at;
    chunk.payload = data_ + at + sizeof(ChunkHeader);
    if (std::string fault = fault_of(chunk); !fault.empty()) *error = damaged(at, fault);
    const uint64_t size = sizeof(ChunkHeader) + chunk.header.stored_bytes;
    if (!error->empty() || size > lost_bytes_) break;
    if (checksum_of(chunk.header, chunk.payload) != chunk.header.checksum)
      *error = damaged(at, "a chunk's checksum is wrong");
    chunks_.push_back(chunk);
    at += size;
    lost_bytes_ = 0;
  }
  return error->empty();
}

std::string ChunkFile::fault_of(const Chunk& chunk) const {
  const ChunkHeader& header = chunk.header;
  if (header.magic != kChunkMagic || header.header_checksum != header_checksum_of(header))
    return "no chunk begins here";
  if (header.stored_bytes > kMaxPayload || header.raw_bytes > kMaxPayload ||
      header.encoding > Encoding::zstd || header.kind == ChunkKind{0} ||
      header.kind > ChunkKind::end || header.first_time > header.last_time)
    return "a chunk's header is invalid";
  return "";
}

bool ChunkFile::decode(const Chunk& chunk, std::vector<char>* room, PayloadReader* out,
                       std::string* error) const {
  const ChunkHeader& header = chunk.header;
  if (header.encoding == Encoding::raw) {
    *out = PayloadReader(chunk.payload, header.stored_bytes);
    return true;
  }
  if (room->size() < header.raw_bytes) room->resize(header.raw_bytes);
  const size_t got =
      ZSTD_decompress(room->data(), header.raw_bytes, chunk.payload, header.stored_bytes);
  if (ZSTD_isError(got) || got != header.raw_bytes) {
    *error = damaged(chunk.offset, "a chunk cannot be decompressed");
    return false;
  }
  *out = PayloadReader(room->data(), got);
  return true;
}

}  // namespace llamalloc::trace
