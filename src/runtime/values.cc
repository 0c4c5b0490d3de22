// SPDX-License-Identifier: Apache-2.0
#include "runtime/values.h"

#include <cerrno>
#include <cstring>

#include "base/commands.h"
#include "base/held_lines.h"
#include "os/no_cancel.h"
#include "runtime/background_state.h"
#include "runtime/control.h"
#include "runtime/figures.h"
#include "runtime/learning.h"
#include "runtime/output.h"
#include "runtime/own_cache.h"
#include "runtime/release.h"

namespace llamalloc {

void start_sampling(Nanos now) {
  const uint64_t usual = samples_for_lookers ? Options::kObserveInterval : Options::kSampleInterval;
  process.profiler.start(process.options.interval(usual), now);
}

namespace {

bool act_sampling(const char* on_or_off) {
  const bool on = strcmp(on_or_off, "on") == 0;
  if (!on && strcmp(on_or_off, "off") != 0) return false;
  if (on) {
    process.profiler.tell_history(process.system.now());
    start_sampling(process.system.now());
  }
  {
    LockGuard guard(background.work_lock);
    sample_for_learning(true);  // it does not begin by itself any more
    if (!on) process.profiler.stop();
  }
  process.threads.wake_all();
  return true;
}

int act_write(bool (*write)(const char*), const char* path, const char** why) {
  const HeldLines lines;
  LockGuard guard(background.work_lock);
  return write_for(why, write, path) ? 0 : EIO;
}

bool write_profile_so_far(const char* path) {
  return write_profile(path, false);
}

bool write_heap_profile(const char* path) {
  return write_profile(path, false, ProfileKind::heap);
}

bool act_window(const char* what) {
  if (strcmp(what, "open") == 0) return open_window();
  if (strcmp(what, "close") == 0) return close_window(), true;
  return write_profile_window(what);
}

uint64_t age_of_window() {
  return static_cast<uint64_t>(window_age().n);
}

bool read_statistic(const char* name, Options::Value* out) {
  for (int i = 0; i < kStats; ++i) {
    if (strcmp(name, kStatRows[i].name) != 0) continue;
    out->number = current_figures().stats[i];
    return true;
  }
  return false;
}

const char* own_tag() {
  return process.profiler.tags().text(adopted_cache ? adopted_cache->tag : 0);
}

void read_named(NamedValue which, Options::Value* out) {
  switch (which) {
    case NamedValue::version:
      out->text = LLAMALLOC_VERSION;
      break;
    case NamedValue::model_state:
      out->text = process.model_state;
      break;
    case NamedValue::idle_caches:
      out->text = process_world.idle_caches_state();
      break;
    case NamedValue::learning:
      out->text = learning_state();
      break;
    case NamedValue::sampling:
      out->text = process.profiler.on() ? "on" : "off";
      break;
    case NamedValue::segregation:
      out->text = segregation_state();
      break;
    case NamedValue::window:
      out->number = age_of_window();
      break;
    case NamedValue::tag:
      out->text = own_tag();
      break;
  }
}

}  // namespace

bool read_value(const char* name, Options::Value* out) {
  *out = {};
  NamedValue named;
  if (find_named_value(name, &named)) return read_named(named, out), true;
  // `stats` and `profile` are options; no statistic has the name of one.
  return process.options.get(name, out) || read_statistic(name, out);
}

int change_option(const char* name, const char* value) {
  if (!may_change(name)) return ENOENT;
  const char* error = nullptr;
  if (!process.options.set(name, strlen(name), value, strlen(value), false, &error)) return EINVAL;
  if (process.profiler.on() && strcmp(name, "sample_interval") == 0)
    start_sampling(process.system.now());
  process.heap.pages().limit_growth(Options::current(process.options.hard_limit));
  return 0;
}

int change_glibc_parameter(GlibcParameter parameter, int value) {
  switch (parameter) {
    case GlibcParameter::mxfast:
      return value >= 0 && static_cast<size_t>(value) <= 80 * sizeof(size_t) / 4;
    case GlibcParameter::mmap_threshold:
      return value >= 0 && value <= 32 << 20;
    case GlibcParameter::arena_test:
    case GlibcParameter::arena_max:
      return value > 0;
    case GlibcParameter::check_action:
      Options::change(&process.options.on_misuse.value,
                      (value & 2) != 0 ? OnMisuse::abort : OnMisuse::report);
      return 1;
    case GlibcParameter::trim_threshold:
    case GlibcParameter::top_pad:
    case GlibcParameter::mmap_max:
    case GlibcParameter::perturb:
      return 1;
  }
  return 0;
}

int act(const char* name, const char* argument, const char** why) {
  const CommandRow* row = find_command(name, strlen(name));
  if (row == nullptr || !row->is_act()) return ENOENT;
  if (row->act_takes_argument() != (argument != nullptr)) return EINVAL;
  const NoCancel here;
  switch (row->id) {
    case Command::release:
      return release_memory(0), 0;
    case Command::sampling:
      return act_sampling(argument) ? 0 : EINVAL;
    case Command::profile:
      return act_write(write_profile_so_far, argument, why);
    case Command::window:
      return act_write(act_window, argument, why);
    case Command::heap:
      return act_write(write_heap_profile, argument, why);
    case Command::stats:
      return act_write(write_stats, argument, why);
    default:
      return ENOENT;
  }
}

const char* exchange_tag(const char* tag) {
  TagTable& tags = process.profiler.tags();
  const SlowPath slow;
  own_cache();
  ThreadCache* cache = adopted_cache;
  if (cache == nullptr) return tags.text(0);  // past its exit handlers: samples nothing any more
  const uint32_t before = cache->tag;
  cache->tag = tags.intern(tag);
  return tags.text(before);
}

}  // namespace llamalloc
