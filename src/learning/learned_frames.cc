// SPDX-License-Identifier: Apache-2.0
#include "learning/learned_frames.h"

#include <algorithm>
#include <tuple>

#include "base/code_key.h"
#include "base/sort.h"

namespace llamalloc {
namespace {

const LearnedFrame* find_frame(LearnedFrames frames, uint64_t code) {
  const auto at = std::lower_bound(
      frames.begin(), frames.end(), code,
      [](const LearnedFrame& frame, uint64_t wanted) { return frame.code < wanted; });
  return at != frames.end() && at->code == code ? &*at : nullptr;
}

uint64_t neighbours(const FunctionShape& shape) {
  return uint64_t{shape.before} << 32 | shape.after;
}

uint64_t code_at(const LoadedFunction& function, uint32_t offset) {
  return code_key(function.build, function.begin + offset);
}

}  // namespace

bool is_sorted(LearnedFrames frames) {
  for (size_t i = 1; i < frames.size(); ++i)
    if (frames[i - 1].code >= frames[i].code) return false;
  return true;
}

void sort_frames(FrameArray* frames) {
  sort_rows(frames->data(), frames->size(),
            [](const LearnedFrame& a, const LearnedFrame& b) { return a.code < b.code; });
  frames->drop_repeated(
      [](const LearnedFrame& a, const LearnedFrame& b) { return a.code == b.code; });
}

// ----- Where they are -----

uint64_t FrameMatch::look_of(const Row& row) {
  return row.frame.function.self;
}

uint64_t FrameMatch::neighbours_of(const Row& row) {
  return neighbours(row.frame.function);
}

// Numbers of rows, by a key of a row.
bool FrameMatch::sort_by(Key key, PageSource& scratch, Numbers* out) {
  if (!out->make_room(rows_.size(), scratch)) return false;
  for (uint32_t i = 0; i < rows_.size(); ++i) out->append(i);
  const Row* const rows = rows_.data();
  sort_rows(out->data(), out->size(),
            [rows, key](uint32_t a, uint32_t b) { return key(rows[a]) < key(rows[b]); });
  return true;
}

template <typename Note>
void FrameMatch::for_rows(const Numbers& sorted, Key key, uint64_t wanted, Note&& note) {
  Row* const rows = rows_.data();
  const std::span<const uint32_t> all = sorted.view();
  auto at =
      std::lower_bound(all.begin(), all.end(), wanted,
                       [rows, key](uint32_t a, uint64_t value) { return key(rows[a]) < value; });
  for (; at != all.end() && key(rows[*at]) == wanted; ++at) note(rows[*at]);
}

bool FrameMatch::find(LearnedFrames frames, LoadedFunctions& functions, PageSource& scratch) {
  if (!rows_.make_room(frames.size(), scratch)) return false;
  for (const LearnedFrame& frame : frames) {
    Row row;
    row.frame = frame;
    rows_.append(row);
  }
  if (!sort_by(look_of, scratch, &by_shape_) || !sort_by(neighbours_of, scratch, &by_neighbours_))
    return false;
  functions.visit_all(*this);
  for (Row& row : rows_.rows()) choose_alike(row);
  if (!settle_claims(&functions, scratch) || !settle_claims(nullptr, scratch)) return false;
  for (const Row& row : rows_.view()) places_ = std::max(places_, row.places);
  return true;
}

void FrameMatch::visit(const LoadedFunction& function) {
  note_alike(function);
  note_between(function);
}

void FrameMatch::note_alike(const LoadedFunction& function) {
  const FunctionShape& shape = function.shape;
  for_rows(by_shape_, look_of, shape.self, [&](Row& row) {
    const FunctionShape& known = row.frame.function;
    const auto likeness =
        static_cast<uint8_t>((known.before == shape.before) + (known.after == shape.after));
    row.is_here = row.is_here || code_at(function, row.frame.offset) == row.frame.code;
    if (likeness < row.likeness) return;
    row.most_alike = likeness > row.likeness ? 1 : row.most_alike + 1;
    row.likeness = likeness;
    row.alike = function;
  });
}

void FrameMatch::note_between(const LoadedFunction& function) {
  for_rows(by_neighbours_, neighbours_of, neighbours(function.shape), [&](Row& row) {
    row.between = function;
    ++row.all_between;
  });
}

void FrameMatch::choose_alike(Row& row) {
  if (!row.is_here && (row.likeness == 0 || row.most_alike != 1)) return;
  row.places = 1;
  row.offsets[0] = row.frame.offset;
}

void FrameMatch::choose_between(Row& row, LoadedFunctions& functions) {
  if (row.all_between != 1) return;
  row.is_between = true;
  row.places = functions.find_call(row.between.address, row.frame.call, row.offsets);
}

// Frames of one build are never at one place. It belongs to the one that is more alike; if none is,
// to none. One that has no place may have changed: the first time that is tried.
bool FrameMatch::settle_claims(LoadedFunctions* first_time, PageSource& scratch) {
  MappedRows<Claim> claims;
  if (!claims.make_room(rows_.size() * CallShape::kMostPlaces, scratch)) return false;
  for (uint32_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_.view()[i];
    const uint32_t worth = row.is_here ? 0 : row.is_between ? 3 : 3 - row.likeness;
    for (uint32_t place = 0; place < row.places; ++place)
      claims.append({at_place(row, place).code, row.frame.build, worth, i});
  }
  const auto place = [](const Claim& claim) { return std::tuple(claim.code, claim.build); };
  sort_rows(claims.data(), claims.size(), [place](const Claim& a, const Claim& b) {
    return std::tuple(place(a), a.worth) < std::tuple(place(b), b.worth);
  });
  const std::span<const Claim> all = claims.view();
  for (size_t i = 0, end; i < all.size(); i = end) {
    for (end = i + 1; end < all.size() && place(all[end]) == place(all[i]);) ++end;
    const bool one_wins = end - i == 1 || all[i].worth < all[i + 1].worth;
    for (size_t k = one_wins ? i + 1 : i; k < end; ++k) rows_.data()[all[k].row].places = 0;
  }
  claims.give_back();
  if (first_time == nullptr) return true;
  for (Row& row : rows_.rows())
    if (row.places == 0) choose_between(row, *first_time);
  return true;
}

LearnedFrame FrameMatch::at_place(const Row& row, uint32_t place) {
  if (row.places == 0) return {};
  if (row.is_here) return row.frame;
  const LoadedFunction& function = row.is_between ? row.between : row.alike;
  const uint32_t offset = row.offsets[place % row.places];
  return {code_at(function, offset), function.shape, row.frame.call, offset,
          static_cast<uint32_t>(function.build)};
}

LearnedFrame FrameMatch::find_here(uint64_t code, uint32_t place) const {
  const std::span<const Row> rows = rows_.view();
  const auto row =
      std::lower_bound(rows.begin(), rows.end(), code,
                       [](const Row& a, uint64_t wanted) { return a.frame.code < wanted; });
  return row != rows.end() && row->frame.code == code ? at_place(*row, place) : LearnedFrame{};
}

// ----- Keeping -----

bool SeenFrames::look(std::span<const uint64_t> codes, const StackTable& stacks,
                      LoadedFunctions& functions, PageSource& pages) {
  const uint32_t frames = stacks.frames();
  const auto is_new = [&](uint32_t frame) {
    const uint64_t code = stacks.code(frame);
    return find_frame(view(), code) == nullptr &&
           std::binary_search(codes.begin(), codes.end(), code);
  };
  size_t news = 0;
  for (uint32_t frame = 0; frame < frames; ++frame) news += is_new(frame);
  if (news == 0) return true;
  FrameArray all;
  if (!all.make_room(frames_.size() + news, pages)) return false;
  for (const LearnedFrame& frame : view()) all.append(frame);
  for (uint32_t frame = 0; frame < frames; ++frame) {
    if (!is_new(frame)) continue;
    LearnedFrame seen;
    seen.code = stacks.code(frame);
    CodeShape shape;  // of another frame, where the module was replaced
    if (functions.look_at(stacks.address(frame), &shape) && shape.code == seen.code)
      seen = {shape.code, shape.function, shape.call, shape.offset, shape.build};
    all.append(seen);
  }
  sort_frames(&all);
  frames_.give_back();
  frames_ = all;
  return true;
}

bool keep_frames(std::span<const uint64_t> codes, LearnedFrames seen, PageSource& scratch,
                 FrameArray* frames) {
  FrameArray kept;
  if (!kept.make_room(codes.size(), scratch)) return false;
  for (const uint64_t code : codes) {
    const LearnedFrame* found = find_frame(seen, code);
    if (found == nullptr || found->function.self == 0) found = find_frame(frames->view(), code);
    if (found != nullptr) kept.append(*found);
  }
  frames->give_back();
  *frames = kept;
  return true;
}

}  // namespace llamalloc
