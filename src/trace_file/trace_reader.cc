// SPDX-License-Identifier: Apache-2.0
#include "trace_file/trace_reader.h"

#include <algorithm>
#include <functional>
#include <map>

namespace llamalloc::trace {

std::unique_ptr<TraceReader> TraceReader::open(const std::string& path, std::string* error) {
  error->clear();
  std::unique_ptr<ChunkFile> file = ChunkFile::open(path, error);
  return file ? over(std::move(file), error) : nullptr;
}

std::unique_ptr<TraceReader> TraceReader::over(std::unique_ptr<ChunkFile> file,
                                               std::string* error) {
  std::unique_ptr<TraceReader> reader(new TraceReader);
  reader->file_ = std::move(file);
  if (!read_contents(*reader->file_, &reader->contents_, error)) return nullptr;
  if (!reader->make_streams()) {
    *error = reader->error_;
    return nullptr;
  }
  reader->rewind();
  return reader;
}

bool TraceReader::make_streams() {
  std::map<uint32_t, EventStream*> by_number;
  for (const Chunk& chunk : file_->chunks()) {
    if (chunk.header.kind > ChunkKind::resolved) continue;
    const bool resolved = chunk.header.kind == ChunkKind::resolved;
    if (!streams_.empty() &&
        (resolved != is_resolved_ || (resolved && !by_number.contains(chunk.header.stream)))) {
      error_ = file_->damaged(chunk.offset, "events of two kinds are mixed");
      return false;
    }
    is_resolved_ = resolved;
    EventStream*& stream = by_number[chunk.header.stream];
    if (stream == nullptr) {
      streams_.push_back(std::make_unique<EventStream>(*file_, contents_.tables.stacks.size()));
      stream = streams_.back().get();
    }
    stream->add(chunk);
  }
  return true;
}

void TraceReader::rewind() {
  error_.clear();
  heads_.clear();
  live_.clear();
  is_live_.clear();
  resizing_.clear();
  threads_.clear();
  batch_at_ = batch_end_ = 0;
  has_spare_ = false;
  next_object_ = missing_frees_ = unknown_frees_ = 0;
  for (const auto& stream : streams_) {
    stream->rewind();
    if (stream->advance()) heads_.push_back({stream->head().time, stream.get()});
    if (!stream->error().empty()) fail(stream->error());
  }
  std::make_heap(heads_.begin(), heads_.end(), std::greater<>());
}

void TraceReader::fail(const std::string& error) {
  if (error_.empty()) error_ = error;
}

// One stream gives records for as long as no other is earlier.
void TraceReader::fill() {
  batch_at_ = batch_end_ = 0;
  while (batch_end_ < kBatch && !heads_.empty() && error_.empty()) {
    std::pop_heap(heads_.begin(), heads_.end(), std::greater<>());
    EventStream& stream = *heads_.back().stream;
    heads_.pop_back();
    bool more = true;
    do {
      const Record& record = stream.head();
      if (!is_resolved_) live_.prefetch(record.place);
      batch_[batch_end_++] = record;
      more = stream.advance();
    } while (more && batch_end_ < kBatch &&
             (heads_.empty() || !(Head{stream.head().time, &stream} > heads_.front())));
    if (!stream.error().empty()) fail(stream.error());
    if (!more) continue;
    heads_.push_back({stream.head().time, &stream});
    std::push_heap(heads_.begin(), heads_.end(), std::greater<>());
  }
}

size_t TraceReader::read(std::span<Event> events) {
  Event* out = events.data();
  Event* const end = out + events.size();
  while (out < end) {
    if (has_spare_) {
      *out++ = spare_;
      has_spare_ = false;
      continue;
    }
    if (batch_at_ == batch_end_) {
      if (!error_.empty()) break;
      fill();
      if (batch_end_ == 0) break;
    }
    if (end - out >= 2)
      out = resolve(batch_[batch_at_++], out);
    else
      out = resolve_last(batch_[batch_at_++], out);
  }
  return static_cast<size_t>(out - events.data());
}

// A record gives two events at most; there is room for one.
Event* TraceReader::resolve_last(const Record& record, Event* out) {
  Event both[2];
  const auto count = resolve(record, both) - both;
  has_spare_ = count == 2;
  if (count >= 1) *out++ = both[0];
  if (count == 2) spare_ = both[1];
  return out;
}

uint32_t TraceReader::thread_of(uint32_t in_file) {
  if (in_file == last_in_file_ && !threads_.empty()) return last_thread_;
  const auto [found, is_new] =
      threads_.try_emplace(in_file, static_cast<uint32_t>(threads_.size()));
  if (is_new) resizing_.push_back(kNone);
  last_in_file_ = in_file;
  return last_thread_ = found->second;
}

Event* TraceReader::resolve(const Record& record, Event* out) {
  const Event event{record.time,
                    0,
                    record.size,
                    record.stack,
                    thread_of(record.thread),
                    EventKind::allocate,
                    record.alignment_log2};
  return is_resolved_ ? resolve_numbered(record, event, out) : resolve_observed(record, event, out);
}

Event* TraceReader::resolve_observed(const Record& record, Event event, Event* out) {
  const auto emit = [&](EventKind kind, uint64_t object) {
    event.kind = kind;
    event.object = object;
    *out++ = event;
  };
  const auto emit_free = [&](uint64_t object) {
    *out++ = {event.time, object, 0, 0, event.thread, EventKind::free, 0};
  };
  switch (record.op) {
    case Op::free: {
      const uint64_t object = live_.take(record.place);
      if (object != kNone) emit_free(object);
      if (object == kNone) ++unknown_frees_;
      break;
    }
    case Op::resize_begin:
      resizing_[event.thread] = live_.take(record.place);
      break;
    case Op::resize_failed:
      if (const uint64_t object = std::exchange(resizing_[event.thread], kNone); object != kNone)
        live_.put(record.place, object);
      break;
    default: {
      uint64_t object = kNone;
      if (record.op == Op::resize_end) object = std::exchange(resizing_[event.thread], kNone);
      const bool is_new = object == kNone;
      if (is_new) object = next_object_++;
      const uint64_t before = live_.put(record.place, object);
      if (before != kNone) {
        ++missing_frees_;
        emit_free(before);
      }
      emit(is_new ? EventKind::allocate : EventKind::resize, object);
    }
  }
  return out;
}

Event* TraceReader::resolve_numbered(const Record& record, Event event, Event* out) {
  event.object = record.place;
  if (record.op == Op::allocate) {
    is_live_.push_back(true);
    ++next_object_;
  } else if (!is_live_[record.place]) {
    fail(file_->name() + ": an event " + std::to_string(record.time) +
         " ns after the start refers to a freed object; the trace is damaged, record it again");
    batch_at_ = batch_end_ = 0;
    heads_.clear();
    return out;
  } else if (record.op == Op::free) {
    is_live_[record.place] = false;
    event.kind = EventKind::free;
    event.alignment_log2 = 0;
  } else {
    event.kind = EventKind::resize;
  }
  *out++ = event;
  return out;
}

}  // namespace llamalloc::trace
