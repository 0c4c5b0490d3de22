// SPDX-License-Identifier: Apache-2.0
// A PageSource for tests: real memory, a clock that the test sets, and calls that fail on demand.
// Counts its calls.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "os/pages.h"

namespace llamalloc {

class FakePages final : public PageSource {
 public:
  void* reserve(size_t bytes, size_t alignment) override {
    return allow() && add(bytes) ? system_pages.reserve(bytes, alignment) : nullptr;
  }
  bool commit(void* address, size_t bytes) override {
    return allow() && system_pages.commit(address, bytes);
  }
  void advise_huge(void* address, size_t bytes, bool huge) override {
    huge ? ++huge_advice : ++small_advice;
    if (!huge) system_pages.advise_huge(address, bytes, false);  // tests count what is resident
  }
  Collapse collapse(void* address, size_t bytes) override {
    ++collapse_calls;
    if (on_collapse != nullptr) on_collapse(on_release_argument);
    if (address < refuse_collapse_below) return Collapse::refused;
    if (collapse_gives == Collapse::done) collapsed += bytes;
    return collapse_gives;
  }
  // As a system whose pages are huge until they are split: a part that is discarded before stays
  // charged.
  bool split(void* address) override {
    ++split_calls;
    if (huge_until_split) ++counted.mappings;
    if (huge_until_split && !refuse_split && address >= refuse_split_below) ++counted.pages;
    last_split = address;
    return !no_split;
  }
  Splits splits() override { return counted; }
  bool discard(void* address, size_t bytes) override {
    if (!allow()) return false;
    ++discards;
    if (on_release != nullptr) on_release(on_release_argument);
    return system_pages.discard(address, bytes);
  }
  bool uncommit(void* address, size_t bytes) override {
    if (!allow() || refuse_uncommit) return false;
    ++uncommits;
    if (on_release != nullptr) on_release(on_release_argument);
    return system_pages.uncommit(address, bytes);
  }
  void* map(size_t bytes, size_t alignment) override {
    if (!allow() || !add(bytes)) return nullptr;
    if (map_at == nullptr) return system_pages.map(bytes, alignment);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void* there = mmap(map_at, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    map_at = nullptr;
    return there != MAP_FAILED ? there : nullptr;
  }
  bool unmap(void* address, size_t bytes) override {
    if (on_release != nullptr) on_release(on_release_argument);
    if (refuse_unmap) return false;
    ++unmaps;
    mapped -= bytes;
    return system_pages.unmap(address, bytes);
  }
  void* remap(void* address, size_t old_bytes, size_t new_bytes) override {
    if (!allow() || refuse_remap || new_bytes > most_remapped) return nullptr;
    void* moved = moves_far && new_bytes > old_bytes
                      ? move_far(address, old_bytes, new_bytes)
                      : system_pages.remap(address, old_bytes, new_bytes);
    if (moved != nullptr) mapped += new_bytes - old_bytes;
    return moved;
  }
  size_t move(void* from, size_t bytes, void* to) override {
    const size_t moved =
        allow() && !refuse_move ? system_pages.move(from, std::min(bytes, most_moved), to) : 0;
    mapped -= moved;
    return moved;
  }
  bool can_move() override { return most_moved != 0; }
  size_t resident(const void* address, size_t bytes) override {
    if (on_resident != nullptr) on_resident(on_release_argument);
    return system_pages.resident(address, bytes);
  }
  Nanos fetch(void*) override {
    return half_are_cheap && ++fetches % 2 == 0 ? Nanos{250'000} : fetch_time;
  }
  Nanos processor_time() override {
    return Nanos{static_cast<int64_t>(processor_share * static_cast<double>(time.n))};
  }
  Nanos now() override { return time = time + reading_takes; }
  Nanos now_coarse() override { return time; }

  Nanos time = Nanos::seconds(1000);
  Nanos reading_takes{};        // of the clock
  Nanos fetch_time{250'000};    // of each huge page,
  bool half_are_cheap = false;  // or only of every second one
  int fetches = 0;
  double processor_share = 1;                   // of the time
  std::atomic<int64_t> calls_left = INT64_MAX;  // after these every call that can fail does
  std::atomic<size_t> mapped = 0;               // bytes reserved and mapped
  size_t most_mapped = SIZE_MAX;                // a limit on address space
  void* map_at = nullptr;                       // where the next mapping is to be
  bool refuse_unmap = false;                    // as a filter of system calls may
  bool refuse_remap = false;
  bool refuse_uncommit = false;
  size_t most_remapped = SIZE_MAX;  // what a mapping is resized to
  size_t most_moved = 0;            // bytes a call
  bool refuse_move = false;
  bool moves_far = false;                // what grows moves to where the process has nothing
  void (*on_release)(void*) = nullptr;   // called in each discard, uncommit and unmap
  void (*on_resident)(void*) = nullptr;  // called when somebody asks what is resident
  void (*on_collapse)(void*) = nullptr;  // called in each collapse
  void* on_release_argument = nullptr;   // of all three
  std::atomic<int> discards = 0;
  std::atomic<int> unmaps = 0;
  int uncommits = 0;
  std::atomic<int> huge_advice = 0;
  std::atomic<int> small_advice = 0;
  int collapse_calls = 0;
  size_t collapsed = 0;  // bytes
  Collapse collapse_gives = Collapse::done;
  const void* refuse_collapse_below = nullptr;
  int split_calls = 0;
  bool huge_until_split = true;
  const void* refuse_split_below = nullptr;  // as the next one
  bool refuse_split = false;  // in silence, as for a page that another process has, too
  bool no_split = false;      // with an error, as an old kernel
  Splits counted{.known = true};
  void* last_split = nullptr;

 private:
  static void* move_far(void* address, size_t old_bytes, size_t new_bytes) {
    constexpr size_t kFar = size_t{1} << 40;
    void* there = mmap(static_cast<char*>(address) - kFar, new_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* moved = mremap(address, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, there);
    return moved != MAP_FAILED ? moved : nullptr;
  }
  bool add(size_t bytes) {
    if (bytes > most_mapped || mapped > most_mapped - bytes) return false;
    mapped += bytes;
    return true;
  }
  bool allow() { return calls_left > 0 && calls_left-- > 0; }
};

}  // namespace llamalloc
