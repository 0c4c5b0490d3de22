// SPDX-License-Identifier: Apache-2.0
#include "runtime/values.h"

#include <cerrno>
#include <cstring>

#include "runtime/allocator.h"
#include "runtime/background_state.h"
#include "runtime/idle_caches.h"
#include "runtime/output.h"
#include "runtime/own_cache.h"

namespace llamalloc {
namespace {

void start_sampling() {
  process.profiler.start(Options::current(process.options.sample_interval), process.system.now());
}

bool act_sampling(const char* on_or_off) {
  const bool on = strcmp(on_or_off, "on") == 0;
  if (!on && strcmp(on_or_off, "off") != 0) return false;
  if (on)
    start_sampling();
  else
    process.profiler.stop();
  process.threads.wake_all();
  return true;
}

bool act_write(bool (*write)(const char*), const char* path) {
  LockGuard guard(background.work_lock);
  return write(path);
}

bool read_statistic(const char* name, Options::Value* out) {
  for (int i = 0; i < kStats; ++i) {
    if (strcmp(name, kStatRows[i].name) != 0) continue;
    refresh_gauges();
    out->number = process.counters.get(static_cast<Stat>(i));
    return true;
  }
  return false;
}

}  // namespace

bool read_value(const char* name, Options::Value* out) {
  *out = {};
  if (strcmp(name, "model_state") == 0) return out->text = process.model_state, true;
  if (strcmp(name, "idle_caches") == 0) return out->text = idle_caches_state(), true;
  if (strcmp(name, "tag") == 0)
    return out->text = process.profiler.tags().text(adopted_cache ? adopted_cache->tag : 0), true;
  // `stats` and `profile` are options; no statistic has the name of one.
  return process.options.get(name, out) || read_statistic(name, out);
}

int change_option(const char* name, const char* value) {
  bool known = false;
  for (const char* changeable : {"sample_interval", "release_delay", "retain", "on_misuse"})
    known |= strcmp(name, changeable) == 0;
  if (!known) return ENOENT;
  const char* error = nullptr;
  if (!process.options.set(name, strlen(name), value, strlen(value), false, &error)) return EINVAL;
  if (process.profiler.on()) start_sampling();
  return 0;
}

int act(const char* name, const char* argument) {
  const bool release = strcmp(name, "release") == 0;
  const bool sampling = strcmp(name, "sampling") == 0;
  const bool profile = strcmp(name, "profile") == 0;
  if (!release && !sampling && !profile && strcmp(name, "stats") != 0) return ENOENT;
  if (release != (argument == nullptr)) return EINVAL;
  if (release) return release_memory(0), 0;
  if (sampling) return act_sampling(argument) ? 0 : EINVAL;
  if (profile)
    return act_write([](const char* path) { return write_profile(path, false); }, argument) ? 0
                                                                                            : EIO;
  return act_write(write_stats, argument) ? 0 : EIO;
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
