// SPDX-License-Identifier: Apache-2.0
#include "trace_file/trace_writer.h"

#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace llamalloc::trace {

std::unique_ptr<TraceFileWriter> TraceFileWriter::create(const std::string& path,
                                                         const TraceFileOptions& options,
                                                         std::string* error) {
  std::unique_ptr<TraceFileWriter> writer(new TraceFileWriter);
  namespace fs = std::filesystem;
  std::error_code fault;
  // A file renamed over /dev/null would replace it for the whole system.
  if (fs::exists(path, fault) && !fs::is_regular_file(path, fault)) {
    *error = path + ": a folder, a device or a pipe; name an ordinary file";
    return nullptr;
  }
  writer->path_ = fs::is_symlink(path, fault) ? fs::weakly_canonical(path, fault).string() : path;
  writer->temporary_ = writer->path_ + ".tmp";
  writer->options_ = options;
  writer->file_ = fopen(writer->temporary_.c_str(), "wbe");
  if (writer->file_ == nullptr) {
    *error = path + ": " + strerror(errno);
    return nullptr;
  }
  writer->room_.resize(kRoom);
  writer->chunk_.use(writer->room_.data(), kRoom, ChunkKind::resolved, 0);
  const FileHeader header = make_file_header(options.pid, options.wall_ns);
  writer->write_raw(&header, sizeof(header));
  writer->write_chunk(
      make_chunk_header(ChunkKind::about, options.command.data(), options.command.size(), 1),
      options.command.data());
  return writer;
}

TraceFileWriter::~TraceFileWriter() {
  if (file_ == nullptr) return;
  fclose(file_);
  remove(temporary_.c_str());
}

void TraceFileWriter::write_raw(const void* data, size_t bytes) {
  if (error_ == 0 && bytes > 0 && fwrite(data, 1, bytes, file_) != bytes)
    error_ = errno ? errno : EIO;
}

void TraceFileWriter::write_chunk(ChunkHeader header, const void* payload) {
  if (options_.level > 0 && header.raw_bytes > 64) {
    packed_.resize(ZSTD_compressBound(header.raw_bytes));
    const size_t bytes =
        ZSTD_compress(packed_.data(), packed_.size(), payload, header.raw_bytes, options_.level);
    if (!ZSTD_isError(bytes) && bytes < header.raw_bytes) {
      header.encoding = Encoding::zstd;
      header.stored_bytes = static_cast<uint32_t>(bytes);
      payload = packed_.data();
    }
  }
  header.header_checksum = header_checksum_of(header);
  header.checksum = checksum_of(header, payload);
  write_raw(&header, sizeof(header));
  write_raw(payload, header.stored_bytes);
}

void TraceFileWriter::put(Batch& batch, std::initializer_list<uint64_t> numbers) {
  for (const uint64_t number : numbers) {
    uint8_t bytes[kMaxVarint];
    batch.bytes.insert(batch.bytes.end(), bytes, put_varint(bytes, number));
  }
}

void TraceFileWriter::put_text(Batch& batch, const std::string& text) {
  put(batch, {text.size()});
  batch.bytes.insert(batch.bytes.end(), text.begin(), text.end());
}

void TraceFileWriter::end_record(Batch& batch) {
  ++batch.count;
  if (batch.bytes.size() < kRoom) return;
  if (&batch == &stack_batch_) flush(frame_batch_);
  flush(batch);
}

void TraceFileWriter::flush(Batch& batch) {
  if (batch.count == 0) return;
  write_chunk(make_chunk_header(batch.kind, batch.bytes.data(), batch.bytes.size(), batch.count),
              batch.bytes.data());
  batch.bytes.clear();
  batch.count = 0;
}

uint32_t TraceFileWriter::add_module(const Module& module) {
  put(module_batch_, {modules_count_, module.start, module.limit, module.file_offset});
  std::string id;
  for (size_t i = 0; i + 1 < module.build_id.size(); i += 2)
    id += static_cast<char>(strtoul(module.build_id.substr(i, 2).c_str(), nullptr, 16));
  put_text(module_batch_, id);
  put_text(module_batch_, module.path);
  end_record(module_batch_);
  return modules_count_++;
}

uint32_t TraceFileWriter::add_frame(const Frame& frame) {
  put(frame_batch_, {frames_, frame.address});
  end_record(frame_batch_);
  if (!frame.name.empty() || frame.module != Frame::kNoModule) {
    put(name_batch_, {frames_, frame.module == Frame::kNoModule ? 0 : frame.module + uint64_t{1}});
    put_text(name_batch_, frame.name);
    end_record(name_batch_);
  }
  return frames_++;
}

uint32_t TraceFileWriter::add_stack(std::span<const uint32_t> frames) {
  put(stack_batch_, {stacks_, frames.size()});
  for (const uint32_t frame : frames) put(stack_batch_, {frame});
  end_record(stack_batch_);
  return stacks_++;
}

void TraceFileWriter::add_tables(const Tables& tables) {
  for (const Module& module : tables.modules) add_module(module);
  for (const Frame& frame : tables.frames) add_frame(frame);
  for (uint32_t i = 1; i < tables.stacks.size(); ++i) add_stack(tables.stacks[i]);
}

void TraceFileWriter::write(std::span<const Event> events) {
  for (const Event& event : events) write_one(event);
}

void TraceFileWriter::write_one(const Event& e) {
  if (chunk_.is_full()) flush_events();
  if (chunk_.is_empty()) chunk_.begin(e.thread, e.time, next_object_);
  switch (e.kind) {
    case EventKind::allocate:
      chunk_.allocate_next(e.thread, e.time, e.size, e.stack, e.alignment_log2);
      ++next_object_;
      break;
    case EventKind::resize:
      chunk_.resize_object(e.thread, e.time, e.object, e.size, e.stack, e.alignment_log2);
      break;
    case EventKind::free:
      chunk_.free_object(e.thread, e.time, e.object);
  }
}

void TraceFileWriter::flush_events() {
  for (Batch* batch : {&module_batch_, &frame_batch_, &stack_batch_, &name_batch_}) flush(*batch);
  if (chunk_.is_empty()) return;
  chunk_.seal();
  write_chunk(chunk_.header(), chunk_.data() + sizeof(ChunkHeader));
  chunk_.clear();
}

bool TraceFileWriter::close(std::string* error) {
  flush_events();
  if (options_.ended_in_order) write_chunk(make_chunk_header(ChunkKind::end, "", 0, 1), "");
  if (fclose(file_) != 0 && error_ == 0) error_ = errno;
  file_ = nullptr;
  if (error_ == 0 && rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return true;
  remove(temporary_.c_str());
  *error = path_ + ": " + strerror(error_);
  return false;
}

}  // namespace llamalloc::trace
