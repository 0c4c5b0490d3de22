// SPDX-License-Identifier: Apache-2.0
#include "trace_file/event_stream.h"

namespace llamalloc::trace {
namespace {

constexpr uint64_t kPlaces = uint64_t{1} << 60;

}  // namespace

void EventStream::rewind() {
  chunk_ = 0;
  left_ = 0;
  time_ = next_object_ = 0;
  in_ = {};
  error_.clear();
}

bool EventStream::fail(const char* what) {
  if (error_.empty()) error_ = file_->damaged(chunks_[chunk_ - 1]->offset, what);
  left_ = 0;
  chunk_ = chunks_.size();
  return false;
}

bool EventStream::next_chunk() {
  do {
    if (!error_.empty()) return false;
    if (chunk_ > 0 && !in_.at_end()) return fail("a chunk is longer than its records");
    if (chunk_ == chunks_.size()) return false;
    const Chunk& chunk = *chunks_[chunk_++];
    if (!file_->decode(chunk, &room_, &in_, &error_)) return left_ = 0, false;
    is_resolved_ = chunk.header.kind == ChunkKind::resolved;
    if (chunk.header.first_time < time_) return fail("time runs backwards");
    time_ = chunk.header.first_time;
    address_ = 0;
    thread_ = static_cast<uint32_t>(in_.varint());
    if (is_resolved_ && in_.varint() != next_object_) return fail("objects are missing");
    left_ = chunk.header.count;
  } while (left_ == 0);
  return true;
}

uint64_t EventStream::read_place() {
  if (is_resolved_) return next_object_ - in_.varint();
  return address_ += unzigzag(in_.varint());
}

bool EventStream::read_record() {
  uint8_t first = in_.byte();
  while (first >> kAlignmentBits == static_cast<uint8_t>(Op::thread) && in_.ok()) {
    thread_ = static_cast<uint32_t>(in_.varint());
    first = in_.byte();
  }
  const Op op = static_cast<Op>(first >> kAlignmentBits);
  uint8_t alignment = first & (kWideAlignment);
  if (alignment == kWideAlignment) alignment = in_.byte();
  const uint64_t later = in_.varint();
  if (later > chunks_[chunk_ - 1]->header.last_time - time_)
    return fail("time runs past its chunk");
  time_ += later;
  const bool places = op == Op::allocate || op == Op::resize_end;
  uint64_t place = is_resolved_ && op == Op::allocate ? next_object_++ : read_place();
  uint64_t size = 0, stack = 0;
  if (places) {
    size = in_.varint();
    stack = in_.varint();
  }
  head_ = {time_, place, size, static_cast<uint32_t>(stack), thread_, op, alignment};
  if (!in_.ok()) return fail("a chunk ends inside a record");
  if (op >= Op::thread || alignment > 63) return fail("a record is invalid");
  if (is_resolved_ ? place >= next_object_ || op == Op::resize_begin || op == Op::resize_failed
                   : place >= kPlaces)
    return fail("a record refers to an unknown address");
  if (stack >= stacks_) return fail("an event refers to an unknown stack");
  return true;
}

}  // namespace llamalloc::trace
