// SPDX-License-Identifier: Apache-2.0
// The functions of include/llamalloc/llamalloc.h, found in whatever is preloaded.
//   c_interface values | tags
#include <dlfcn.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <typename F>
F* find(const char* name) {
  void* f = dlsym(RTLD_DEFAULT, name);
  if (f == nullptr) fprintf(stderr, "%s is missing\n", name), exit(1);
  return reinterpret_cast<F*>(f);
}

void require(bool good, const char* what, int line) {
  if (!good) fprintf(stderr, "c_interface.cc:%d: %s\n", line, what), exit(1);
}
#define REQUIRE(condition) require(condition, #condition, __LINE__)

void* volatile sink;

int test_values() {
  auto* get = find<int(const char*, void*, size_t*)>("llamalloc_get");
  auto* set = find<int(const char*, const char*)>("llamalloc_set");
  auto* act = find<int(const char*, const char*)>("llamalloc_act");
  auto* tag = find<const char*(const char*)>("llamalloc_tag");
  uint64_t number = 0;
  size_t bytes = sizeof(number);
  sink = malloc(8 << 20);
  REQUIRE(get("allocated", &number, &bytes) == 0 && bytes == 8 && number >= 8 << 20);
  free(sink);
  REQUIRE(get("hugepages", &number, &bytes) == 0 && number == 1);
  bytes = 4;
  REQUIRE(get("allocated", &number, &bytes) == ERANGE && bytes == 8);
  REQUIRE(get("nonsense", &number, &bytes) == ENOENT);
  char text[32];
  bytes = 2;
  REQUIRE(get("version", text, &bytes) == ERANGE && bytes == 6);
  REQUIRE(get("version", text, &bytes) == 0);
  REQUIRE(strcmp(text, find<const char*()>("llamalloc_version")()) == 0);
  bytes = sizeof(text);
  REQUIRE(get("model_state", text, &bytes) == 0 && strcmp(text, "none") == 0);
  bytes = sizeof(number);
  REQUIRE(set("retain", "3MiB") == 0 && get("retain", &number, &bytes) == 0 && number == 3 << 20);
  REQUIRE(set("retain", "much") == EINVAL && set("model", "x") == ENOENT);
  REQUIRE(set("nonsense", "1") == ENOENT);
  constexpr struct {
    const char *name, *value;
    uint64_t bytes;
  } kMemory[] = {{"release_rate", "5MiB", 5 << 20},
                 {"hard_limit", "64GiB", uint64_t{64} << 30},
                 {"soft_limit", "2GiB", uint64_t{2} << 30}};
  for (const auto& [name, value, expected] : kMemory) {
    bytes = sizeof(number);
    REQUIRE(set(name, value) == 0 && get(name, &number, &bytes) == 0 && number == expected);
    REQUIRE(set(name, "-1") == EINVAL && get(name, &number, &bytes) == 0 && number == expected);
  }
  bytes = sizeof(text);
  REQUIRE(set("release_forecast", "peak") == 0 && get("release_forecast", text, &bytes) == 0);
  REQUIRE(strcmp(text, "peak") == 0 && set("release_forecast", "tarot") == EINVAL);
  REQUIRE(set("release_window", "30s") == 0 && set("release_window", "2h") == EINVAL);
  bytes = sizeof(text);
  REQUIRE(set("on_misuse", "report") == 0 && get("on_misuse", text, &bytes) == 0);
  REQUIRE(strcmp(text, "report") == 0 && set("on_misuse", "2") == EINVAL);
  REQUIRE(act("release", nullptr) == 0 && act("release", "x") == EINVAL);
  REQUIRE(act("sampling", "on") == 0 && act("sampling", "maybe") == EINVAL);
  REQUIRE(act("sampling", nullptr) == EINVAL && act("dance", nullptr) == ENOENT);
  REQUIRE(strcmp(tag("one"), "") == 0 && strcmp(tag("two"), "one") == 0);
  bytes = sizeof(text);
  REQUIRE(get("tag", text, &bytes) == 0 && strcmp(text, "two") == 0);
  REQUIRE(strcmp(tag(nullptr), "two") == 0 && strcmp(tag(""), "") == 0);
  auto* json = find<size_t(char*, size_t)>("llamalloc_stats_json");
  const size_t whole = json(nullptr, 0);
  char head[12];
  REQUIRE(whole > 500 && json(head, sizeof(head)) > 500 && strcmp(head, "{\"version\":") == 0);
  return 0;
}

void allocate(size_t count, bool keep) {
  for (size_t i = 0; i < count; ++i) {
    sink = malloc(1000);
    if (!keep) free(sink);
  }
}

int use_tags() {
  auto* tag = find<const char*(const char*)>("llamalloc_tag");
  tag("left");
  allocate(10'000, true);
  const char* before = tag("right");
  allocate(20'000, false);
  tag(before);
  allocate(10'000, false);
  tag(nullptr);
  allocate(20'000, false);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int status = argc > 1 && strcmp(argv[1], "tags") == 0 ? use_tags() : test_values();
  if (status == 0) printf("ok\n");
  return status;
}
