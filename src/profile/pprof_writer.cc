// SPDX-License-Identifier: Apache-2.0
#include "profile/pprof_writer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/code_key.h"
#include "base/sort.h"

namespace llamalloc {
namespace {

// Field numbers of profile.proto.
enum ProfileField : uint32_t {
  kSampleType = 1,
  kSample,
  kMapping,
  kLocation,
  kFunction,
  kStringTable,
  kDropFrames,
  kKeepFrames,
  kTimeNanos,
  kDurationNanos,
  kPeriodType,
  kPeriod,
  kComment,
  kDefaultSampleType,
};
enum ValueTypeField : uint32_t { kType = 1, kUnit };
enum SampleField : uint32_t { kLocationId = 1, kValue, kLabel };
enum LabelField : uint32_t { kKey = 1, kStr, kNum, kNumUnit };
enum MappingField : uint32_t {
  kMappingId = 1,
  kMemoryStart,
  kMemoryLimit,
  kFileOffset,
  kFilename,
  kBuildId,
  kHasFunctions,
};
enum LocationField : uint32_t { kLocId = 1, kLocMappingId, kAddress, kLine };
enum LineField : uint32_t { kFunctionId = 1 };
enum FunctionField : uint32_t { kFuncId = 1, kName, kSystemName };

// Values of a sample; in a row of a kind: what it shows, and under which name.
enum class Shown : uint8_t { allocated, dead, alive, pinned };
struct SampleType {
  const char* type;
  const char* unit;  // count or bytes
  Shown shown;
};
struct Kind {
  SampleType types[6];
  int count;
  const char* preset;  // the type that pprof shows first
};
// By ProfileKind.
constexpr Kind kKinds[] = {
    {{{"allocated_objects", "count", Shown::allocated},
      {"allocated_space", "bytes", Shown::allocated},
      {"deallocated_objects", "count", Shown::dead},
      {"deallocated_space", "bytes", Shown::dead},
      {"censored_allocated_objects", "count", Shown::alive},
      {"censored_allocated_space", "bytes", Shown::alive}},
     6,
     "allocated_space"},
    {{{"alloc_objects", "count", Shown::allocated},
      {"alloc_space", "bytes", Shown::allocated},
      {"inuse_objects", "count", Shown::alive},
      {"inuse_space", "bytes", Shown::alive}},
     4,
     "inuse_space"},
    {{{"alloc_objects", "count", Shown::allocated}, {"alloc_space", "bytes", Shown::allocated}},
     2,
     "alloc_space"},
    {{{"inuse_objects", "count", Shown::alive},
      {"inuse_space", "bytes", Shown::alive},
      {"pinned_space", "bytes", Shown::pinned}},
     3,
     "pinned_space"},
};

// Since when a profile of what is in use is complete; pprof shows it with -comments.
constexpr char kFromStart[] = "llamalloc-heap: complete since the start of the process";
constexpr char kFromLater[] =
    "llamalloc-heap: complete since the time of this profile less its duration; objects that were "
    "allocated before are missing";

constexpr char kOff[] =
    "llamalloc-heap: sampling is off; objects that were allocated since it ended are missing";

const char* completeness(const PprofWriter::Header& header) {
  if (!header.sampling) return kOff;
  return header.from_start ? kFromStart : kFromLater;
}

// Below zero only by rounding.
int64_t rounded(double x) {
  return x <= 0 ? 0 : static_cast<int64_t>(x + 0.5);
}

// Strings of a profile are UTF-8; in a path other bytes than printable ASCII become '_'.
void make_printable(char* text, size_t length) {
  for (size_t i = 0; i < length; ++i)
    if (text[i] < 0x20 || text[i] > 0x7E) text[i] = '_';
}

}  // namespace

bool PprofWriter::write(const Header& header, const Snapshot& snapshot) {
  if (!prepare()) return false;
  header_ = header;
  next_before_ = header.before == nullptr ? nullptr : header.before->survivors;
  write_header(header);
  const bool whole = header.kind == ProfileKind::lifetimes && header.before == nullptr;
  if (whole && snapshot.point_count != 0) write_history(snapshot);
  write_samples(snapshot);
  if (!name_frames()) return false;
  order_modules();
  write_mappings();
  write_frames();
  write_functions();
  if (!strings_.ok()) return false;
  write_strings();
  return flush_if(0) && gzip_.finish();
}

bool PprofWriter::prepare() {
  frame_count_ = names_.size();
  frames_ = scratch_.make_array<Frame>(frame_count_ + 1);
  return frames_ != nullptr && strings_.ok();
}

bool PprofWriter::flush_if(size_t enough) {
  if (proto_.size() < enough) return true;
  const bool good = proto_.ok() && gzip_.write(proto_.data(), proto_.size());
  proto_.clear();
  return good;
}

void PprofWriter::write_header(const Header& header) {
  const Kind& kind = kKinds[static_cast<int>(header.kind)];
  for (int i = 0; i < kind.count; ++i)
    write_value_type(kSampleType, kind.types[i].type, kind.types[i].unit);
  write_value_type(kPeriodType, "space", "bytes");
  proto_.number(kPeriod, header.interval);
  proto_.number(kTimeNanos, static_cast<uint64_t>(header.time.n));
  proto_.number(kDurationNanos, static_cast<uint64_t>(header.duration.n));
  if (header.kind == ProfileKind::lifetimes)
    proto_.number(kComment, strings_.id(header.at_exit ? "llamalloc-profile 1 exit=1"
                                                       : "llamalloc-profile 1 exit=0"));
  if (header.program != nullptr && header.kind == ProfileKind::lifetimes) {
    const int length = snprintf(name_, 300, "llamalloc-program %s", header.program);
    const size_t n = std::min(static_cast<size_t>(length), size_t{299});
    make_printable(name_, n);
    proto_.number(kComment, strings_.id(name_, n));
  }
  if (header.load != nullptr && header.load[0] != 0 && header.kind == ProfileKind::lifetimes)
    proto_.number(kComment, strings_.id(header.load));
  if (header.kind == ProfileKind::heap || header.kind == ProfileKind::pinned)
    proto_.number(kComment, strings_.id(completeness(header)));
  proto_.number(kDefaultSampleType, strings_.id(kind.preset));
}

void PprofWriter::write_history(const Snapshot& snapshot) {
  next_share_ = snapshot.shares;
  const auto since = [&](Nanos at) {
    return static_cast<long long>(at < header_.began ? 0 : (at - header_.began).n);
  };
  const auto bytes = [](double n) { return static_cast<long long>(rounded(n)); };
  int length = snprintf(name_, sizeof(name_), "llamalloc-peak %lld:%lld", since(snapshot.peak_at),
                        bytes(snapshot.peak));
  proto_.number(kComment, strings_.id(name_, static_cast<size_t>(length)));
  constexpr size_t kLongest = sizeof(" 9223372036854775807:9223372036854775807");
  static_assert(sizeof(name_) > 64 + (LiveHistory::kPoints + 1) * kLongest);
  constexpr char kTimeline[] = "llamalloc-timeline";
  length = sizeof(kTimeline) - 1;
  memcpy(name_, kTimeline, sizeof(kTimeline));
  for (uint32_t i = 0; i < snapshot.point_count; ++i) {
    const LivePoint& point = snapshot.points[i];
    length += snprintf(name_ + length, kLongest, " %lld:%lld", since(point.at), bytes(point.total));
  }
  proto_.number(kComment, strings_.id(name_, static_cast<size_t>(length)));
}

void PprofWriter::write_value_type(uint32_t field, const char* type, const char* unit) {
  const auto message = proto_.open(field);
  proto_.number(kType, strings_.id(type));
  proto_.number(kUnit, strings_.id(unit));
  proto_.close(message);
}

void PprofWriter::write_samples(const Snapshot& snapshot) {
  const Survivor* alive = snapshot.survivors;
  const Survivor* const end = alive + snapshot.survivor_count;
  for (uint32_t i = 0; i < snapshot.context_count; ++i) {
    const Survivor* const first = alive;
    while (alive != end && alive->context == i) ++alive;
    const size_t count = static_cast<size_t>(alive - first);
    Totals totals = totals_of(snapshot.contexts[i], first, count);
    totals.before = allocated_before(i);
    const bool nothing =
        header_.kind == ProfileKind::allocs
            ? rounded(totals.dead.count + totals.alive.count - totals.before.count) == 0
            : snapshot.contexts[i].count + count == 0;
    if (nothing || (header_.kind == ProfileKind::pinned && count == 0)) continue;
    write_sample(snapshot, i, first, count, totals);
    flush_if(kFlushAt);
  }
}

PprofWriter::Totals PprofWriter::totals_of(const LifetimeStats& dead, const Survivor* alive,
                                           size_t alive_count) const {
  Totals totals;
  totals.dead = {dead.weighted_count, dead.weighted_bytes};
  for (const Survivor* s = alive; s != alive + alive_count; ++s) {
    const double bytes = s->weight * static_cast<double>(s->size);
    totals.alive = totals.alive + Values{s->weight, bytes};
    if (header_.pinned != nullptr) totals.pinned += header_.pinned->memory_of(s->address, bytes);
  }
  return totals;
}

// Contexts come in ascending order.
PprofWriter::Values PprofWriter::allocated_before(uint32_t context) {
  const Snapshot* before = header_.before;
  if (before == nullptr || header_.kind != ProfileKind::allocs || context >= before->context_count)
    return {};
  const Survivor* const first = next_before_;
  const Survivor* const end = before->survivors + before->survivor_count;
  while (next_before_ != end && next_before_->context == context) ++next_before_;
  const Totals totals =
      totals_of(before->contexts[context], first, static_cast<size_t>(next_before_ - first));
  return totals.dead + totals.alive;
}

void PprofWriter::write_sample(const Snapshot& snapshot, uint32_t context, const Survivor* alive,
                               size_t alive_count, const Totals& totals) {
  const LifetimeStats& dead = snapshot.contexts[context];
  uint32_t ages[kLifetimeBuckets] = {};
  for (const Survivor* s = alive; s != alive + alive_count; ++s) ++ages[lifetime_bucket(s->age)];
  const auto sample = proto_.open(kSample);
  write_locations(dead.stack);
  write_values(totals);
  label("bytes", dead.bucket, "bytes");
  if (header_.kind != ProfileKind::lifetimes) {
    if (dead.tag != 0) text_label("tag", tags_.text(dead.tag), strlen(tags_.text(dead.tag)));
    return proto_.close(sample);
  }
  label("sampled", dead.count + alive_count, "count");
  if (dead.tag != 0) text_label("tag", tags_.text(dead.tag), strlen(tags_.text(dead.tag)));
  if (dead.count != 0) write_dead_labels(dead);
  if (alive_count != 0) histogram_label("censored_ages", [&](int b) { return ages[b]; });
  if (next_share_ != nullptr) write_live(snapshot, context);
  proto_.close(sample);
}

// Contexts come in ascending order.
void PprofWriter::write_live(const Snapshot& snapshot, uint32_t context) {
  const int64_t at_peak = rounded(snapshot.at_peak[context]);
  if (at_peak != 0) label("peak_bytes", static_cast<uint64_t>(at_peak), "bytes");
  const LiveShare* const end = snapshot.shares + snapshot.share_count;
  while (next_share_ != end && next_share_->context < context) ++next_share_;
  int length = 0;
  constexpr size_t kLongest = sizeof(" 255:9223372036854775807");
  static_assert(sizeof(name_) > (LiveHistory::kPoints + 1) * kLongest);
  for (; next_share_ != end && next_share_->context == context; ++next_share_)
    length += snprintf(name_ + length, kLongest, "%s%u:%lld", length == 0 ? "" : " ",
                       next_share_->point, static_cast<long long>(rounded(next_share_->bytes)));
  if (length != 0) text_label("live", name_, static_cast<size_t>(length));
}

void PprofWriter::write_locations(uint32_t stack) {
  const auto ids = proto_.open(kLocationId);
  for (uint32_t i = 0; i < stacks_.depth(stack); ++i) {
    const uint32_t frame = stacks_.frame(stack, i);
    if (stacks_.address(frame) == 0) continue;  // not known
    frames_[frame].used = true;
    proto_.varint(frame + 1);
  }
  proto_.close(ids);
}

// Of lifetimes, what was allocated is what died and what lives: exactly, after rounding.
void PprofWriter::write_values(const Totals& t) {
  const auto values = proto_.open(kValue);
  const Kind& kind = kKinds[static_cast<int>(header_.kind)];
  for (int i = 0; i < kind.count; ++i) {
    const bool bytes = kind.types[i].unit[0] == 'b';
    const auto of = [bytes](const Values& v) { return rounded(bytes ? v.bytes : v.count); };
    int64_t value = 0;
    switch (kind.types[i].shown) {
      case Shown::allocated:
        value = header_.before == nullptr || header_.kind != ProfileKind::allocs
                    ? of(t.dead) + of(t.alive)
                    : of({t.dead.count + t.alive.count - t.before.count,
                          t.dead.bytes + t.alive.bytes - t.before.bytes});
        break;
      case Shown::dead:
        value = of(t.dead);
        break;
      case Shown::alive:
        value = of(t.alive);
        break;
      case Shown::pinned:
        value = rounded(t.pinned);
        break;
    }
    proto_.varint(static_cast<uint64_t>(value));
  }
  proto_.close(values);
}

void PprofWriter::write_dead_labels(const LifetimeStats& dead) {
  label("avg_lifetime", static_cast<uint64_t>(dead.average().n), "nanoseconds");
  label("stddev_lifetime", static_cast<uint64_t>(dead.deviation().n), "nanoseconds");
  label("min_lifetime", static_cast<uint64_t>(dead.min.n), "nanoseconds");
  label("max_lifetime", static_cast<uint64_t>(dead.max.n), "nanoseconds");
  label("same_thread", dead.same_thread, "count");
  label("same_cpu", dead.same_cpu, "count");
  histogram_label("lifetimes", [&](int b) { return dead.lifetimes.count(b); });
}

void PprofWriter::label(const char* key, uint64_t value, const char* unit) {
  const auto message = proto_.open(kLabel);
  proto_.number(kKey, strings_.id(key));
  proto_.number(kNum, value);
  proto_.number(kNumUnit, strings_.id(unit));
  proto_.close(message);
}

template <typename CountOf>
void PprofWriter::histogram_label(const char* key, CountOf&& count_of) {
  char* end = name_;
  char* const limit = name_ + sizeof(name_);
  static_assert(sizeof(name_) > kLifetimeBuckets * sizeof("251:4294967295"));
  for (int b = 0; b < kLifetimeBuckets; ++b) {
    if (count_of(b) == 0) continue;
    if (end != name_) *end++ = ' ';
    end = std::to_chars(end, limit, b).ptr;
    *end++ = ':';
    end = std::to_chars(end, limit, count_of(b)).ptr;
  }
  text_label(key, name_, static_cast<size_t>(end - name_));
}

void PprofWriter::text_label(const char* key, const char* text, size_t length) {
  const auto message = proto_.open(kLabel);
  proto_.number(kKey, strings_.id(key));
  proto_.number(kStr, strings_.id(text, length));
  proto_.close(message);
}

bool PprofWriter::name_frames() {
  for (uint32_t i = 0; i < frame_count_; ++i) {
    Frame& frame = frames_[i];
    if (!frame.used) continue;
    frame.function = function_named(names_.name(i), names_.name_length(i));
    frame.module = names_.module(i);
    if (frame.function == 0) return false;
    if (frame.module == kNoModule || mapping_id_[frame.module] != 0) continue;
    module_order_[module_count_] = frame.module;
    mapping_id_[frame.module] = ++module_count_;
  }
  return true;
}

uint32_t PprofWriter::function_named(const char* name, size_t length) {
  const uint32_t string = strings_.id(name, length);
  const uint32_t known =
      function_index_.find(string, [&](uint32_t i) { return functions_[i] == string; });
  if (known != IdIndex::kNone) return known + 1;
  if (!function_index_.reserve_one(scratch_) || !functions_.push(scratch_, string)) return 0;
  function_index_.insert(string, functions_.size() - 1);
  return functions_.size();
}

// Two at one place, one after the other, stand in the order that they were met in.
void PprofWriter::order_modules() {
  const auto start = [&](uint32_t module) { return names_.module_info(module).start; };
  sort_rows(module_order_, module_count_, [&](uint32_t a, uint32_t b) {
    return start(a) != start(b) ? start(a) < start(b) : a < b;
  });
  for (uint32_t i = 0; i < module_count_; ++i) mapping_id_[module_order_[i]] = i + 1;
}

void PprofWriter::write_mappings() {
  for (uint32_t i = 0; i < module_count_; ++i) {
    write_mapping(i + 1, names_.module_info(module_order_[i]));
    flush_if(kFlushAt);
  }
}

void PprofWriter::write_mapping(uint32_t id, const ModuleInfo& module) {
  constexpr char kHex[] = "0123456789abcdef";
  const size_t bytes = std::min(size_t{module.build_id_bytes}, sizeof(module.build_id));
  char hex[2 * sizeof(module.build_id)];
  for (size_t i = 0; i < bytes; ++i) {
    hex[2 * i] = kHex[module.build_id[i] >> 4];
    hex[2 * i + 1] = kHex[module.build_id[i] & 15];
  }
  const size_t length = strnlen(module.path, sizeof(module.path));
  memcpy(name_, module.path, length);
  make_printable(name_, length);
  const auto message = proto_.open(kMapping);
  proto_.number(kMappingId, id);
  proto_.number(kMemoryStart, module.start);
  proto_.number(kMemoryLimit, module.limit);
  proto_.number(kFileOffset, module.file_offset);
  proto_.number(kFilename, strings_.id(name_, length));
  proto_.number(kBuildId, strings_.id(hex, 2 * bytes));
  proto_.number(kHasFunctions, 1);
  proto_.close(message);
  write_module_comment(id, module);
}

// What a reader cannot tell from the mapping.
void PprofWriter::write_module_comment(uint32_t id, const ModuleInfo& module) {
  const bool follows = module.low == module.start - module.file_offset &&
                       module.build == hash_build_id(module.build_id, module.build_id_bytes);
  if (module.build == 0 || follows) return;
  char text[80];
  const int length = snprintf(text, sizeof(text), "llamalloc-module %x %llx %llx", id,
                              static_cast<unsigned long long>(module.low),
                              static_cast<unsigned long long>(module.build));
  proto_.number(kComment, strings_.id(text, static_cast<size_t>(length)));
}

void PprofWriter::write_frames() {
  for (uint32_t i = 0; i < frame_count_; ++i) {
    const Frame& frame = frames_[i];
    if (!frame.used) continue;
    const auto location = proto_.open(kLocation);
    proto_.number(kLocId, i + 1);
    if (frame.module != kNoModule) proto_.number(kLocMappingId, mapping_id_[frame.module]);
    proto_.number(kAddress, stacks_.address(i) - 1);
    const auto line = proto_.open(kLine);
    proto_.number(kFunctionId, frame.function);
    proto_.close(line);
    proto_.close(location);
    flush_if(kFlushAt);
  }
}

void PprofWriter::write_functions() {
  for (uint32_t i = 0; i < functions_.size(); ++i) {
    const auto function = proto_.open(kFunction);
    proto_.number(kFuncId, i + 1);
    proto_.number(kName, functions_[i]);
    proto_.number(kSystemName, functions_[i]);
    proto_.close(function);
    flush_if(kFlushAt);
  }
}

void PprofWriter::write_strings() {
  for (uint32_t i = 0; i < strings_.size(); ++i) {
    proto_.text(kStringTable, strings_.text(i), strings_.length(i));
    flush_if(kFlushAt);
  }
}

}  // namespace llamalloc
