// SPDX-License-Identifier: Apache-2.0
#include "profile/named_frames.h"

#include <cstring>

namespace llamalloc {
namespace {

// Frame names are printable ASCII: other bytes become '_'.
void make_printable(char* text, size_t length) {
  for (size_t i = 0; i < length; ++i)
    if (text[i] < 0x21 || text[i] > 0x7E) text[i] = '_';
}

}  // namespace

bool NamedFrames::update(const StackTable& stacks, FrameNames& names) {
  const uint32_t known = frames_.size();
  const uint64_t changes = names.changes();
  const bool changed = changes != changes_;
  if ((changed || is_time_again()) && !ask_again(known, changed, stacks, names)) return false;
  changes_ = changes;
  for (uint32_t i = known; i < stacks.frames(); ++i)
    if (!frames_.push(arena_, {}) || !name_frame(stacks, i, names)) return false;
  return true;
}

// What one name lacks, the next one does: unless `all`, it stops there.
bool NamedFrames::ask_again(uint32_t known, bool all, const StackTable& stacks, FrameNames& names) {
  starved_ = false;
  waited_ = 0;
  for (uint32_t i = 0; i < known && (all || !starved_); ++i)
    if (!frames_[i].settled && !name_frame(stacks, i, names)) return false;
  pause_ = !starved_ ? 1 : pause_ < kLongestPause ? 2 * pause_ : kLongestPause;
  return true;
}

bool NamedFrames::name_frame(const StackTable& stacks, uint32_t i, FrameNames& names) {
  Frame& frame = frames_[i];
  const uintptr_t address = stacks.address(i);
  const uint64_t image = stacks.image(i);
  const uint32_t name = ask_name(address, image, names);
  const uint32_t unknown = strings_.id("?");
  if (name == 0 || unknown == 0) return false;
  const bool starved = names.was_starved();
  starved_ = starved_ || starved;
  if (starved && frame.name != 0) return true;
  if (frame.starved && name == unknown) {  // its module went meanwhile
    frame.settled = true;
  } else if (image != 0) {
    const uint32_t module = module_at(address, image, names);
    frame = {name, module, module != kNoModule && !starved, starved};
  } else if (frame.name == 0 || frame.starved) {
    const uint32_t module = module_at(address, 0, names);
    frame = {name, module, module == kNoModule, starved};
  } else if (name != unknown && name != frame.name) {
    frame = {unknown, kNoModule, true, false};
  }
  return true;
}

uint32_t NamedFrames::ask_name(uintptr_t address, uint64_t image, FrameNames& names) {
  name_[0] = '\0';
  names.frame_name(address, name_, sizeof(name_), image);
  if (name_[0] == '\0') strcpy(name_, "?");
  const size_t length = strlen(name_);
  make_printable(name_, length);
  return strings_.id(name_, length);
}

uint32_t NamedFrames::module_at(uintptr_t address, uint64_t image, FrameNames& names) {
  for (uint32_t i = 0; i < modules_.size() && image != 0; ++i)
    if (modules_[i].image == image && modules_[i].start < address && address <= modules_[i].limit)
      return i;
  ModuleInfo module{};
  if (!names.module_of(address, &module, image)) return kNoModule;
  for (uint32_t i = 0; i < modules_.size(); ++i)
    if (modules_[i].image == module.image && modules_[i].start == module.start &&
        modules_[i].limit == module.limit && strcmp(modules_[i].path, module.path) == 0)
      return i;
  return modules_.push(arena_, module) ? modules_.size() - 1 : kNoModule;
}

}  // namespace llamalloc
