// SPDX-License-Identifier: Apache-2.0
// Makes one profile for one client, in memory of its own that is given back at the end. At most
// kMostBytes: then the client is told to have it written to a file instead.
#pragma once

#include <new>

#include "os/byte_sink.h"
#include "profile/profile_view.h"

namespace llamalloc {

// A document in pieces of kPiece bytes, each a mapping.
class BodySink final : public ByteSink {
 public:
  static constexpr size_t kPiece = size_t{256} << 10;
  static constexpr size_t kMostBytes = size_t{64} << 20;

  bool write(const void* data, size_t bytes) override;
  void clear();
  size_t size() const { return size_; }
  bool is_full() const { return full_; }
  // What stands at an offset below size(), and for how many bytes at once.
  const char* at(size_t offset, size_t* bytes) const;

 private:
  char* pieces_[kMostBytes / kPiece] = {};
  size_t size_ = 0;
  bool full_ = false;
};

class ProfileJob {
 public:
  // Remembers the state of now, to show what happens from here on. False: no memory.
  bool open_window();
  // False: no memory, or larger than kMostBytes (body().is_full()).
  bool make(ProfileKind kind);
  void clear();
  const BodySink& body() const { return body_; }

 private:
  bool fill_pinned(MetadataArena& scratch, PinnedPages* pinned);

  alignas(ProfileWindow) char window_room_[sizeof(ProfileWindow)];
  ProfileWindow* window_ = nullptr;
  BodySink body_;
};

}  // namespace llamalloc
