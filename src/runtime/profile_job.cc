// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile_job.h"

#include <cstring>

#include "os/clock.h"
#include "runtime/background_state.h"
#include "runtime/figures.h"

namespace llamalloc {

bool BodySink::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes != 0 && !full_) {
    char*& piece = size_ / kPiece < kMostBytes / kPiece ? pieces_[size_ / kPiece] : pieces_[0];
    if (size_ == kMostBytes) return full_ = true, false;
    if (piece == nullptr) piece = static_cast<char*>(process.system.map(kPiece, kSmallPage));
    if (piece == nullptr) return false;
    const size_t room = kPiece - size_ % kPiece;
    const size_t n = bytes < room ? bytes : room;
    memcpy(piece + size_ % kPiece, from, n);
    size_ += n;
    from += n;
    bytes -= n;
  }
  return !full_;
}

void BodySink::clear() {
  for (char*& piece : pieces_) {
    if (piece != nullptr) process.system.unmap(piece, kPiece);
    piece = nullptr;
  }
  size_ = 0;
  full_ = false;
}

const char* BodySink::at(size_t offset, size_t* bytes) const {
  const size_t in_piece = kPiece - offset % kPiece;
  *bytes = size_ - offset < in_piece ? size_ - offset : in_piece;
  return pieces_[offset / kPiece] + offset % kPiece;
}

bool ProfileJob::open_window() {
  window_ = new (window_room_) ProfileWindow(process.system);
  return process.profiler.open_window(window_, process.system.now());
}

bool ProfileJob::make(ProfileKind kind) {
  ScratchPages pages(process.system);
  MetadataArena scratch(pages);
  PinnedPages pinned;
  if (kind == ProfileKind::pinned && !fill_pinned(scratch, &pinned)) return false;
  const Profiler::WriteInfo info{.now = process.system.now(),
                                 .wall_time = read_clock(CLOCK_REALTIME),
                                 .at_exit = false,
                                 .kind = kind,
                                 .window = window_,
                                 .pinned = kind == ProfileKind::pinned ? &pinned : nullptr,
                                 .program = program_invocation_short_name,
                                 .started = process.started};
  LockGuard guard(background.work_lock);
  Symboliser* names = background.ensure_symboliser();
  return names != nullptr && process.profiler.write(body_, *names, info);
}

// Pages that are taken into use meanwhile are left out.
bool ProfileJob::fill_pinned(MetadataArena& scratch, PinnedPages* pinned) {
  const size_t room = process.heap.pages().in_use() + 1024;
  pinned->rows = scratch.make_array<PinnedPages::Row>(room);
  if (pinned->rows == nullptr) return false;
  telemetry.for_each_page([&](const HugePage& page, const PageCounts& counts) {
    if (pinned->count == room || counts.allocated == 0) return;
    const double memory = static_cast<double>(kHugePageSize - counts.unbacked);
    pinned->rows[pinned->count++] = {reinterpret_cast<uintptr_t>(page.base),
                                     memory / static_cast<double>(counts.allocated)};
  });
  pinned->sort();
  return true;
}

void ProfileJob::clear() {
  if (window_ != nullptr) window_->~ProfileWindow();
  window_ = nullptr;
  body_.clear();
}

}  // namespace llamalloc
