// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_stacks.h"

#include <algorithm>

namespace llamalloc::sim {
namespace {

// Bytes of the frame around a return address: 16 to 256, as the ABI aligns them.
uint32_t frame_bytes(uintptr_t address) {
  return 16 * (1 + static_cast<uint32_t>(SiteTable::hash(address) >> 60));
}

}  // namespace

TraceStacks::Image& TraceStacks::image_of(uint32_t stack) {
  if (stack >= images_.size()) images_.resize(stack + size_t{1});
  std::unique_ptr<Image>& image = images_[stack];
  if (image != nullptr) return *image;
  image = std::make_unique<Image>();
  image->frames = input_.code(stack);
  if (image->frames.empty()) image->frames.push_back({});
  if (image->frames.size() > kMaxFrames) image->frames.resize(kMaxFrames);
  size_t bytes = 0;
  for (const CodeFrame& frame : image->frames) {
    if (bytes != 0) image->words[bytes / 8 - 1] = frame.address;
    bytes += frame_bytes(frame.address);
    image->words.resize(bytes / 8);
  }
  return *image;
}

StackBounds TraceStacks::bounds(uint32_t stack) {
  const Image& image = image_of(stack);
  const auto low = reinterpret_cast<uintptr_t>(image.words.data());
  return {low, low + image.words.size() * 8};
}

CallSite TraceStacks::site(uint32_t stack) {
  const Image& image = image_of(stack);
  return {image.frames[0].address, reinterpret_cast<uintptr_t>(image.words.data())};
}

uint64_t TraceStacks::code(uint32_t stack) {
  return image_of(stack).frames[0].code;
}

void TraceStacks::unwind(uint32_t stack, StackTrace* out) {
  const Image& image = image_of(stack);
  out->depth = 0;
  for (const CodeFrame& frame : image.frames) {
    out->frames[out->depth] = frame.address;
    out->images[out->depth] = 0;
    out->codes[out->depth] = frame.code;
    out->sizes[out->depth++] = frame_bytes(frame.address);
  }
}

}  // namespace llamalloc::sim
