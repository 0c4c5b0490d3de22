// SPDX-License-Identifier: Apache-2.0
#include "predict/named_functions.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/units.h"
#include "predict/frame_name_key.h"

namespace llamalloc {

// Backwards to the last place where functions begin, and there to the first that covers the offset.
bool NamedFunctions::Module::find(uint64_t offset, FrameName* out) const {
  const auto is_below = [](uint64_t value, const Row& row) { return value < row.begin; };
  const Row* row = std::upper_bound(rows_, rows_ + count_, offset, is_below);
  const Row* found = nullptr;
  while (row != rows_) {
    --row;
    if (found != nullptr ? row->begin != found->begin : row->reach <= offset) break;
    if (offset < row->end) found = row;
  }
  if (found == nullptr) return false;
  *out = {};
  if (found->function != 0) *out = {found->function, ~found->function};
  return true;
}

FrameName NamedFunctions::Module::unnamed(bool has_start, uint64_t start) const {
  if (!knows_unnamed_) return {};
  if (!has_start) return frame_name(name_);
  char text[sizeof(name_) + 20];
  snprintf(text, sizeof(text), "%s+0x%lx", name_, low_in_file_ + start);
  return frame_name(text);
}

bool NamedFunctions::Module::is_consistent() const {
  uint32_t reach = 0;
  for (size_t i = 0; i < count_; ++i) {
    reach = std::max(reach, rows_[i].end);
    if (rows_[i].end <= rows_[i].begin || rows_[i].reach != reach) return false;
    if (i == 0 || rows_[i - 1].begin < rows_[i].begin) continue;
    if (rows_[i - 1].begin > rows_[i].begin || rows_[i - 1].end >= rows_[i].end) return false;
  }
  return true;
}

bool NamedFunctions::open(const ModelEvidence& evidence, MetadataArena& arena,
                          PageSource& scratch) {
  evidence_ = &evidence;
  arena_ = &arena;
  scratch_ = &scratch;
  slots_ = arena.make_array<std::atomic<const Module*>>(kSlots);
  return slots_ != nullptr;
}

const NamedFunctions::Module* NamedFunctions::find(uint64_t build) const {
  for (size_t i = build % kSlots;; i = (i + 1) % kSlots) {
    // Pairs with the release in publish(): the module's rows are there.
    const Module* const module = slots_[i].load(std::memory_order_acquire);
    if (module == nullptr || module->build_ == build) return module;
  }
}

void NamedFunctions::publish(const Module* module) {
  size_t i = module->build_ % kSlots;
  while (slots_[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) % kSlots;
  slots_[i].store(module, std::memory_order_release);
  ++modules_;
}

FunctionNames::Want NamedFunctions::wants(const NamedModule& module) {
  if (is_full() || find(module.build) != nullptr) return Want::nothing;
  next_ = {};
  next_.build_ = module.build;
  next_.low_in_file_ = module.low_in_file;
  snprintf(next_.name_, sizeof(next_.name_), "?%s", module.file_name);
  make_printable(next_.name_ + 1, strlen(next_.name_ + 1));
  next_.knows_unnamed_ = evidence_->knows(frame_name(next_.name_));
  made_ = nullptr;
  room_ = count_ = group_ = 0;
  group_known_ = false;
  reach_ = 0;
  return next_.knows_unnamed_ ? Want::all : Want::what_counts;
}

bool NamedFunctions::counts(const char* name, size_t length) {
  return evidence_->knows(frame_name(name, length));
}

bool NamedFunctions::room_for(size_t functions) {
  room_ = functions;
  made_ = static_cast<Row*>(scratch_->map(align_up(room_ * sizeof(Row), kSmallPage), kSmallPage));
  return made_ != nullptr;
}

// Of those that begin at one place, a shorter one behind a longer one names nothing.
void NamedFunctions::add(uint32_t begin, uint32_t end, const char* name, size_t length) {
  if (end <= begin || count_ == room_) return;
  if (count_ > group_ && made_[group_].begin != begin) end_group();
  if (count_ > group_ && end <= made_[count_ - 1].end) return;
  const FrameName made = frame_name(name, length);
  const bool known = evidence_->knows(made);
  group_known_ = group_known_ || known;
  made_[count_++] = {known ? made.function : 0, begin, end, 0};
}

// One that is not known matters where it hides a part of one that is.
void NamedFunctions::end_group() {
  if (!group_known_ && !next_.knows_unnamed_ && (count_ == group_ || made_[group_].begin >= reach_))
    count_ = group_;
  for (; group_ < count_; ++group_)
    made_[group_].reach = reach_ = std::max(reach_, made_[group_].end);
  group_known_ = false;
}

NamedFunctions::Module* NamedFunctions::kept() {
  Row* rows = nullptr;
  if (count_ != 0 && (rows = arena_->make_array<Row>(count_)) == nullptr) return nullptr;
  if (count_ != 0) memcpy(rows, made_, count_ * sizeof(Row));
  next_.rows_ = rows;
  next_.count_ = count_;
  return arena_->make<Module>(next_);
}

void NamedFunctions::end(bool read) {
  const bool complete = read && (room_ == 0 || made_ != nullptr);
  if (complete) {
    end_group();
    if (const Module* const module = kept()) publish(module);
  }
  if (made_ != nullptr) scratch_->unmap(made_, align_up(room_ * sizeof(Row), kSmallPage));
  made_ = nullptr;
}

}  // namespace llamalloc
