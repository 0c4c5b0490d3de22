// SPDX-License-Identifier: Apache-2.0
#include "policy/learned_frames.h"

#include <algorithm>
#include <tuple>
#include <utility>

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

LearnedFrame placed(const LearnedFrame& frame, const LoadedFunction& function, uint32_t offset) {
  return {code_at(function, offset),
          function.shape,
          frame.call,
          offset,
          static_cast<uint32_t>(function.build),
          {}};
}

constexpr uint32_t kMostAlike = UINT16_MAX;

AlikeRank rank_of(uint32_t ordinal, uint32_t count) {
  if (count > kMostAlike) return {};
  return {static_cast<uint16_t>(ordinal), static_cast<uint16_t>(count)};
}

}  // namespace

bool is_sorted(LearnedFrames frames) {
  for (size_t i = 1; i < frames.size(); ++i)
    if (frames[i - 1].code >= frames[i].code) return false;
  return true;
}

void sort_frames(FrameArray* frames) {
  LearnedFrame* const first = frames->data();
  sort_rows(first, frames->size(),
            [](const LearnedFrame& a, const LearnedFrame& b) { return a.code < b.code; });
  const auto same = [](const LearnedFrame& a, const LearnedFrame& b) { return a.code == b.code; };
  frames->cut(static_cast<size_t>(std::unique(first, first + frames->size(), same) - first));
}

// ----- Where they are -----

bool FrameMatch::find(LearnedFrames frames, LoadedFunctions& functions, PageSource& scratch) {
  if (!rows_.make_room(frames.size(), scratch) || !by_neighbours_.make_room(frames.size(), scratch))
    return false;
  for (const LearnedFrame& frame : frames) {
    by_neighbours_.append(static_cast<uint32_t>(rows_.size()));
    Row row;
    row.frame = frame;
    rows_.append(row);
  }
  sort_rows(rows_.data(), rows_.size(), [](const Row& a, const Row& b) {
    return a.frame.function.self < b.frame.function.self;
  });
  const Row* const rows = rows_.data();
  sort_rows(by_neighbours_.data(), by_neighbours_.size(), [rows](uint32_t a, uint32_t b) {
    return neighbours(rows[a].frame.function) < neighbours(rows[b].frame.function);
  });
  functions.visit_all(*this);
  for (Row& row : rows_.rows()) choose_alike(row);
  settle_claims(&functions);
  settle_claims(nullptr);
  for (const Row& row : rows_.view()) places_ = std::max(places_, row.places);
  sort_rows(rows_.data(), rows_.size(),
            [](const Row& a, const Row& b) { return a.frame.code < b.frame.code; });
  return true;
}

void FrameMatch::visit(const LoadedFunction& function) {
  note_alike(function);
  note_between(function);
}

void FrameMatch::note_alike(const LoadedFunction& function) {
  const FunctionShape& shape = function.shape;
  const std::span<Row> rows = rows_.rows();
  auto row =
      std::lower_bound(rows.begin(), rows.end(), shape.self,
                       [](const Row& a, uint64_t self) { return a.frame.function.self < self; });
  for (; row != rows.end() && row->frame.function.self == shape.self; ++row) {
    const FunctionShape& known = row->frame.function;
    const auto likeness =
        static_cast<uint8_t>((known.before == shape.before) + (known.after == shape.after));
    const uint32_t ordinal = row->all_alike++;
    if (ordinal == row->frame.rank.ordinal) row->ranked = function;
    row->is_here = row->is_here || code_at(function, row->frame.offset) == row->frame.code;
    if (row->all_alike > 1 && likeness < row->likeness) continue;
    row->most_alike = likeness > row->likeness ? 1 : row->most_alike + 1;
    row->likeness = likeness;
    row->alike = function;
    row->alike_ordinal = ordinal;
  }
}

void FrameMatch::note_between(const LoadedFunction& function) {
  const uint64_t wanted = neighbours(function.shape);
  Row* const rows = rows_.data();
  const std::span<const uint32_t> all = by_neighbours_.view();
  auto at = std::lower_bound(all.begin(), all.end(), wanted, [rows](uint32_t a, uint64_t key) {
    return neighbours(rows[a].frame.function) < key;
  });
  for (; at != all.end() && neighbours(rows[*at].frame.function) == wanted; ++at) {
    rows[*at].between = function;
    ++rows[*at].all_between;
  }
}

void FrameMatch::place_alike(Row& row, const LoadedFunction& function, uint32_t ordinal) {
  row.here = placed(row.frame, function, row.frame.offset);
  row.here.rank = rank_of(ordinal, row.all_alike);
}

// One that is alone now, and was or has a neighbour of then; one with both neighbours; the one of
// its rank; one with a neighbour.
void FrameMatch::choose_alike(Row& row) {
  const AlikeRank rank = row.frame.rank;
  const bool is_alone = row.all_alike == 1 && (rank.count <= 1 || row.likeness > 0);
  const bool one_is_most_alike = row.likeness > 0 && row.most_alike == 1;
  if (row.is_here) {
    row.here = row.frame;
  } else if (is_alone || (one_is_most_alike && row.likeness == kNeighbours)) {
    place_alike(row, row.alike, row.alike_ordinal);
  } else if (rank.count > 1 && row.all_alike == rank.count) {
    place_alike(row, row.ranked, rank.ordinal);
    row.likeness = 0;
  } else if (one_is_most_alike) {
    place_alike(row, row.alike, row.alike_ordinal);
  }
}

void FrameMatch::choose_between(Row& row, LoadedFunctions& functions) {
  row.here = {};
  if (row.all_between != 1) return;
  row.likeness = kNeighbours;
  row.places = functions.find_call(row.between.address, row.frame.call, row.offsets);
  if (row.places > 0) row.here = placed(row.frame, row.between, row.offsets[0]);
}

// Two functions may have looked alike, of which one changed, or is gone: then the place belongs to
// the one whose neighbours agree, if to any. Others that lose it may have changed: the first time
// that is tried.
void FrameMatch::settle_claims(LoadedFunctions* first_time) {
  const std::span<Row> rows = rows_.rows();
  const auto claim = [](const Row& row) { return std::pair(row.here.code, row.frame.build); };
  const auto order = [claim](const Row& row) {
    return std::tuple(claim(row), !row.is_here, kNeighbours - row.likeness);
  };
  sort_rows(rows.data(), rows.size(),
            [order](const Row& a, const Row& b) { return order(a) < order(b); });
  for (size_t i = 0, end; i < rows.size(); i = end) {
    for (end = i + 1; end < rows.size() && claim(rows[end]) == claim(rows[i]);) ++end;
    const bool one_wins = end - i == 1 || order(rows[i]) != order(rows[i + 1]);
    for (size_t k = one_wins && rows[i].here.code != 0 ? i + 1 : i; k < end; ++k) {
      rows[k].here = {};
      if (first_time != nullptr) choose_between(rows[k], *first_time);
    }
  }
}

LearnedFrame FrameMatch::find_here(uint64_t code, uint32_t place) const {
  const std::span<const Row> rows = rows_.view();
  const auto row =
      std::lower_bound(rows.begin(), rows.end(), code,
                       [](const Row& a, uint64_t wanted) { return a.frame.code < wanted; });
  if (row == rows.end() || row->frame.code != code) return {};
  if (place == 0 || row->places <= 1 || row->here.code == 0) return row->here;
  return placed(row->frame, row->between, row->offsets[place % row->places]);
}

// ----- Keeping -----

namespace {

// Of frames, how many functions look like theirs, and the how manieth theirs is.
class RankCount final : public LoadedFunctions::Visitor {
 public:
  explicit RankCount(FrameArray& frames) : frames_(frames.rows()) {}
  // False: no memory.
  bool count(LoadedFunctions& functions, PageSource& scratch) {
    if (!rows_.make_room(frames_.size(), scratch)) return false;
    for (LearnedFrame& frame : frames_)
      if (frame.rank.count == 0) rows_.append({&frame});
    sort_rows(rows_.data(), rows_.size(), [](const Row& a, const Row& b) {
      return a.frame->function.self < b.frame->function.self;
    });
    if (rows_.size() > 0) functions.visit_all(*this);
    for (const Row& row : rows_.view())
      if (row.is_met) row.frame->rank = rank_of(row.ordinal, row.count);
    rows_.give_back();
    return true;
  }
  void visit(const LoadedFunction& function) override {
    const std::span<Row> rows = rows_.rows();
    auto row =
        std::lower_bound(rows.begin(), rows.end(), function.shape.self,
                         [](const Row& a, uint64_t self) { return a.frame->function.self < self; });
    for (; row != rows.end() && row->frame->function.self == function.shape.self; ++row) {
      const bool is_it = code_at(function, row->frame->offset) == row->frame->code;
      if (is_it) row->ordinal = row->count;
      row->is_met = row->is_met || is_it;
      ++row->count;
    }
  }

 private:
  struct Row {
    LearnedFrame* frame;
    uint32_t ordinal = 0, count = 0;
    bool is_met = false;
  };
  std::span<LearnedFrame> frames_;
  MappedRows<Row> rows_;
};

}  // namespace

bool keep_frames(std::span<const uint64_t> codes, const StackTable& stacks,
                 LoadedFunctions& functions, PageSource& scratch, FrameArray* frames) {
  FrameArray kept;
  const uint32_t seen = stacks.frames();
  if (!kept.make_room(codes.size() + frames->size() + seen, scratch)) return false;
  for (const uint64_t code : codes)
    if (const LearnedFrame* known = find_frame(frames->view(), code)) kept.append(*known);
  const size_t known = kept.size();
  for (uint32_t frame = 0; frame < seen; ++frame) {
    const uint64_t code = stacks.code(frame);
    if (!std::binary_search(codes.begin(), codes.end(), code)) continue;
    if (find_frame(kept.view().first(known), code) != nullptr) continue;
    CodeShape shape;  // of another frame, where the module was replaced
    if (functions.look_at(stacks.address(frame), &shape) && shape.code == code)
      kept.append({code, shape.function, shape.call, shape.offset, shape.build, {}});
  }
  sort_frames(&kept);
  if (kept.size() > known && !RankCount(kept).count(functions, scratch)) {
    kept.give_back();
    return false;
  }
  frames->give_back();
  *frames = kept;
  return true;
}

}  // namespace llamalloc
