// SPDX-License-Identifier: Apache-2.0
#include "recorder/trace_tables.h"

#include <cstring>

namespace llamalloc {

using trace::ChunkHeader;
using trace::ChunkKind;
using trace::kMaxVarint;
using trace::put_varint;
using trace::zigzag;

bool TraceTables::prepare(Batch& batch) {
  if (batch.memory == nullptr) {
    batch.memory = arena_.make_array<uint8_t>(kRoom);
    batch.at = batch.memory + sizeof(ChunkHeader);
  }
  return batch.memory != nullptr;
}

bool TraceTables::make_room(Batch& batch, ChunkKind kind, size_t bytes) {
  if (!prepare(batch)) return false;
  return static_cast<size_t>(batch.at - batch.memory) + bytes <= kRoom || write(batch, kind);
}

bool TraceTables::write(Batch& batch, ChunkKind kind) {
  if (batch.count == 0) return true;
  const size_t bytes = static_cast<size_t>(batch.at - batch.memory);
  const ChunkHeader header = trace::make_chunk_header(kind, batch.memory + sizeof(ChunkHeader),
                                                      bytes - sizeof(ChunkHeader), batch.count);
  memcpy(batch.memory, &header, sizeof(header));
  batch.at = batch.memory + sizeof(header);
  batch.count = 0;
  return output_.write(batch.memory, bytes);
}

bool TraceTables::write_frames() {
  for (; frames_written_ < stacks_.frames(); ++frames_written_) {
    if (!make_room(stack_batch_, ChunkKind::frames, 2 * kMaxVarint)) return false;
    stack_batch_.at = put_varint(stack_batch_.at, frames_written_);
    stack_batch_.at = put_varint(stack_batch_.at, stacks_.address(frames_written_));
    ++stack_batch_.count;
  }
  return write(stack_batch_, ChunkKind::frames);
}

// The stacks are counted first: the frames of all of them are in the table then.
bool TraceTables::write_stacks() {
  LockGuard guard(lock_);
  const uint32_t stacks = stacks_.stacks();
  if (stacks_written_ == stacks) return true;
  if (!write_frames()) return false;
  for (; stacks_written_ < stacks; ++stacks_written_) {
    const uint32_t depth = stacks_.depth(stacks_written_);
    if (!make_room(stack_batch_, ChunkKind::stacks, (depth + 2) * kMaxVarint)) return false;
    uint8_t* p = put_varint(put_varint(stack_batch_.at, stacks_written_ + 1), depth);
    for (uint32_t i = 0; i < depth; ++i) p = put_varint(p, stacks_.frame(stacks_written_, i));
    stack_batch_.at = p;
    ++stack_batch_.count;
  }
  return write(stack_batch_, ChunkKind::stacks);
}

bool TraceTables::write_names() {
  LockGuard guard(naming_lock_);
  if (symboliser_ == nullptr) symboliser_ = arena_.make<Symboliser>(arena_, system_pages);
  if (modules_ == nullptr) modules_ = arena_.make_array<ModuleInfo>(kModules);
  if (symboliser_ == nullptr || modules_ == nullptr) return false;
  for (; names_written_ < stacks_.frames(); ++names_written_)
    if (!name_frame(names_written_)) return false;
  return write(module_batch_, ChunkKind::modules) && write(name_batch_, ChunkKind::names);
}

bool TraceTables::name_frame(uint32_t frame) {
  const size_t most = kLongestName + 3 * kMaxVarint;
  const uintptr_t address = stacks_.address(frame);
  if (!make_room(name_batch_, ChunkKind::names, most)) return false;
  const uint64_t image = stacks_.image(frame);
  const uint32_t module = module_at(address, image);
  char* name = reinterpret_cast<char*>(name_batch_.at) + 3 * kMaxVarint;
  const size_t length = symboliser_->frame_name(address, name, kLongestName, image);
  uint8_t* p = put_varint(put_varint(put_varint(name_batch_.at, frame), module), length);
  memmove(p, name, length);
  name_batch_.at = p + length;
  ++name_batch_.count;
  return true;
}

uint32_t TraceTables::module_at(uintptr_t address, uint64_t image) {
  for (uint32_t i = module_count_; i > 0; --i)
    if (modules_[i - 1].start < address && address <= modules_[i - 1].limit &&
        (image == 0 || modules_[i - 1].image == image))
      return i;
  if (module_count_ == kModules) return 0;
  ModuleInfo& module = modules_[module_count_];
  if (!symboliser_->module_of(address, &module, image)) return 0;
  const size_t most = sizeof(module.path) + sizeof(module.build_id) + 6 * kMaxVarint;
  if (!make_room(module_batch_, ChunkKind::modules, most)) return 0;
  uint8_t* p = module_batch_.at;
  const size_t path_bytes = strnlen(module.path, sizeof(module.path));
  for (const uint64_t number :
       {uint64_t{module_count_}, uint64_t{module.start}, uint64_t{module.limit},
        uint64_t{module.file_offset}, uint64_t{module.build_id_bytes}})
    p = put_varint(p, number);
  memcpy(p, module.build_id, module.build_id_bytes);
  p = put_varint(p + module.build_id_bytes, path_bytes);
  memcpy(p, module.path, path_bytes);
  module_batch_.at = p + path_bytes;
  ++module_batch_.count;
  return ++module_count_;
}

void TraceTables::lock_all() NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  stacks_.lock().lock();
}

void TraceTables::unlock_all() NO_THREAD_SAFETY_ANALYSIS {
  stacks_.lock().unlock();
  lock_.unlock();
}

void TraceTables::reset_locks_after_fork() {
  stacks_.lock().reset();
  lock_.reset();
}

// No other thread is there.
void TraceTables::restart_in_child() NO_THREAD_SAFETY_ANALYSIS {
  for (Batch* batch : {&stack_batch_, &module_batch_, &name_batch_}) {
    batch->at = batch->memory ? batch->memory + sizeof(ChunkHeader) : nullptr;
    batch->count = 0;
  }
  frames_written_ = stacks_written_ = names_written_ = module_count_ = 0;
}

}  // namespace llamalloc
