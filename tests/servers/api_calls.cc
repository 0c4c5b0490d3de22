// SPDX-License-Identifier: Apache-2.0
// Every call of contracts/api.def by its contract. api_calls [PART]: one line "ok N" for N checks,
// or the line of each that failed, and exit 1. It holds no allocator of its own: preload one.
#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <new>

namespace {

// What the compiler believes of free and errno is what is to be tested.
int error_now() {
  return *const_cast<volatile int*>(&errno);
}

int checks = 0;
int failures = 0;

void check(bool good, const char* what, int line, size_t value) {
  ++checks;
  if (good) return;
  ++failures;
  fprintf(stderr, "api_calls.cc:%d: %s (for %zu)\n", line, what, value);
}
#define CHECK(condition) check(condition, #condition, __LINE__, 0)
#define CHECK_FOR(value, condition) check(condition, #condition, __LINE__, value)

// Looked up, so that the program runs under an allocator that lacks it, and says so.
template <typename F>
F* find(const char* name) {
  void* f = dlsym(RTLD_DEFAULT, name);
  check(f != nullptr, name, __LINE__, 0);
  return reinterpret_cast<F*>(f);
}

template <typename T>
T hidden(T value) {  // from the optimiser
  asm volatile("" : "+r"(value));
  return value;
}

bool is_aligned(const void* p, size_t alignment) {
  return reinterpret_cast<uintptr_t>(p) % alignment == 0;
}

bool reads(const void* p, int byte, size_t n) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  for (size_t i = 0; i < n; ++i)
    if (bytes[i] != byte) return false;
  return true;
}

// Its whole usable size can be written, and stays what it is.
void use_whole(void* p, size_t asked) {
  const size_t usable = malloc_usable_size(p);
  CHECK_FOR(asked, usable >= asked);
  memset(p, 0x5a, usable);
  CHECK_FOR(asked, malloc_usable_size(p) == usable);
  CHECK_FOR(asked, reads(p, 0x5a, usable));
}

void test_sizes() {
  for (size_t size = 0; size < 600'000; size += size < 2048 ? 1 : size / 9) {
    void* p = malloc(hidden(size));
    void* q = malloc(hidden(size));
    CHECK_FOR(size, p != nullptr && q != nullptr && p != q);
    CHECK_FOR(size, is_aligned(p, 16) && is_aligned(q, 16));
    use_whole(p, size);
    memset(q, 0, malloc_usable_size(q));
    CHECK_FOR(size, reads(p, 0x5a, malloc_usable_size(p)));
    free(p);
    free(q);
    auto* zero = static_cast<char*>(calloc(1, hidden(size)));
    CHECK_FOR(size, is_aligned(zero, 16) && reads(zero, 0, size));
    use_whole(zero, size);
    free(zero);
  }
  for (size_t size = size_t{1} << 20; size <= size_t{1} << 26; size = size * 2 + 1) {
    void* p = malloc(hidden(size));
    CHECK_FOR(size, is_aligned(p, 16));
    use_whole(p, size);
    free(p);
  }
  CHECK(malloc_usable_size(nullptr) == 0);
}

void test_alignments() {
  for (size_t alignment = 1; alignment <= size_t{1} << 30; alignment *= 2)
    for (const size_t size :
         {size_t{0}, size_t{1}, alignment / 2 + 1, alignment, size_t{100'000}}) {
      if (size > size_t{1} << 28 && alignment < size_t{1} << 28) continue;
      void* a = aligned_alloc(hidden(alignment), hidden(size));
      CHECK_FOR(alignment, a != nullptr && is_aligned(a, alignment) && is_aligned(a, 16));
      void* p = nullptr;
      const int status = posix_memalign(&p, alignment, size);
      CHECK_FOR(alignment, status == (alignment >= sizeof(void*) ? 0 : EINVAL));
      CHECK_FOR(alignment, status != 0 || is_aligned(p, alignment));
      void* m = memalign(alignment, size);
      CHECK_FOR(alignment, m != nullptr && is_aligned(m, alignment));
      for (void* object : {a, p, m})
        if (object != nullptr && malloc_usable_size(object) < size_t{1} << 22)
          use_whole(object, size);
      free(a);
      free(p);
      free(m);
    }
  for (const size_t bad : {size_t{0}, size_t{3}, size_t{24}, size_t{1} << 40 | 1}) {
    errno = 0;
    CHECK_FOR(bad, aligned_alloc(hidden(bad), 64) == nullptr && errno == EINVAL);
    void* p = &errno;
    errno = 7;
    CHECK_FOR(bad, posix_memalign(&p, bad, 64) == EINVAL && p == &errno && errno == 7);
  }
  errno = 0;
  CHECK(memalign(hidden(SIZE_MAX / 2 + 2), 64) == nullptr && errno == EINVAL);
  void* rounded = memalign(48, 10);
  CHECK(is_aligned(rounded, 64));
  free(rounded);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* v = valloc(10);
  void* whole = pvalloc(page + 1);
  void* none = pvalloc(0);
  CHECK(is_aligned(v, page) && is_aligned(whole, page) && is_aligned(none, page));
  CHECK(malloc_usable_size(whole) >= 2 * page && malloc_usable_size(none) >= page);
  free(v);
  free(whole);
  free(none);
}

template <typename F>
void refused(size_t size, F&& allocation) {
  errno = 0;
  void* p = allocation();
  CHECK_FOR(size, p == nullptr);
  CHECK_FOR(size, errno == ENOMEM);
}

void test_refusals() {
  const size_t most = PTRDIFF_MAX;
  for (const size_t size :
       {most + 1, most + 4096, SIZE_MAX - 4096, SIZE_MAX - 15, SIZE_MAX - 7, SIZE_MAX}) {
    refused(size, [&] { return malloc(hidden(size)); });
    refused(size, [&] { return calloc(1, hidden(size)); });
    refused(size, [&] { return calloc(hidden(size), 2); });
    refused(size, [&] { return realloc(nullptr, hidden(size)); });
    refused(size, [&] { return aligned_alloc(64, hidden(size)); });
    refused(size, [&] { return memalign(1 << 20, hidden(size)); });
    for (size_t alignment = 1; alignment != 0; alignment *= 2)
      refused(size, [&] { return memalign(alignment, hidden(size)); });
    refused(size, [&] { return valloc(hidden(size)); });
    refused(size, [&] { return pvalloc(hidden(size)); });
    refused(size, [&] { return reallocarray(nullptr, hidden(size), 2); });
    refused(size, [&] { return ::operator new(hidden(size), std::nothrow); });
    void* p = nullptr;
    errno = 7;
    CHECK_FOR(size, posix_memalign(&p, 64, hidden(size)) == ENOMEM && errno == 7 && p == nullptr);
    auto* kept = static_cast<char*>(malloc(100));
    memset(kept, 3, 100);
    refused(size, [&] { return realloc(hidden(kept), hidden(size)); });
    CHECK_FOR(size, reads(kept, 3, 100));
    free(kept);
    bool threw = false;
    try {
      ::operator delete(::operator new(hidden(size)));
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    CHECK_FOR(size, threw);
  }
  refused(0, [&] { return calloc(hidden(size_t{1} << 32), hidden(size_t{1} << 32)); });
  refused(0, [&] { return malloc(hidden(size_t{1} << 60)); });  // below, yet nowhere to be had
  for (const size_t size : {size_t{100}, size_t{20} << 10, size_t{320} << 10, size_t{3} << 20}) {
    auto* kept = static_cast<char*>(malloc(size));
    memset(kept, 3, size);
    for (const int bits : {45, 46, 60}) {
      const size_t more = size_t{1} << bits;
      refused(more, [&] { return realloc(hidden(kept), hidden(more)); });
      refused(more, [&] { return realloc(hidden(kept), hidden(more + size - 100)); });
      refused(more, [&] { return reallocarray(hidden(kept), hidden(more / 4), 5); });
    }
    CHECK_FOR(size, reads(kept, 3, size));
    free(kept);
  }
}

void test_realloc() {
  errno = 7;
  auto* p = static_cast<unsigned char*>(realloc(nullptr, 1));
  p[0] = 1;
  size_t have = 1;
  for (size_t size = 2; size < 5'000'000; size = size * 3 / 2 + 1) {
    p = static_cast<unsigned char*>(realloc(p, hidden(size)));
    CHECK_FOR(size, p != nullptr && is_aligned(p, 16) && reads(p, 1, have));
    memset(p, 1, size);
    have = size;
  }
  for (size_t size = have / 3; size > 0; size /= 3) {
    p = static_cast<unsigned char*>(realloc(p, hidden(size)));
    CHECK_FOR(size, p != nullptr && reads(p, 1, size));
  }
  CHECK(realloc(p, 0) == nullptr);
  CHECK(errno == 7);
  void* array = reallocarray(nullptr, 10, 10);
  CHECK(malloc_usable_size(array) >= 100);
  CHECK(reallocarray(array, 0, 10) == nullptr);
}

void test_errno_of_free() {
  for (const size_t size : {size_t{16}, size_t{5000}, size_t{300'000}, size_t{3} << 20}) {
    void* objects[600];
    for (void*& object : objects)
      object = size > 10'000 && &object > objects + 20 ? nullptr : malloc(size);
    errno = 1234;
    for (void* object : objects) free(object);
    CHECK_FOR(size, error_now() == 1234);
  }
  free(nullptr);
  CHECK(error_now() == 1234);
}

void test_sized_frees() {
  auto* free_sized_ = find<void(void*, size_t)>("free_sized");
  auto* free_aligned_sized_ = find<void(void*, size_t, size_t)>("free_aligned_sized");
  auto* sdallocx_ = find<void(void*, size_t, int)>("sdallocx");
  auto* nallocx_ = find<size_t(size_t, int)>("nallocx");
  auto* malloc_size_ = find<size_t(const void*)>("malloc_size");
  auto* cfree_ = find<void(void*)>("cfree");
  if (failures != 0) return;
  for (size_t size = 1; size < 3'000'000; size = size * 2 + 3) {
    free_sized_(malloc(size), size);
    free_sized_(realloc(malloc(size * 2), size), size);
    free_aligned_sized_(aligned_alloc(128, size), 128, size);
    sdallocx_(malloc(size), size, 0);
    void* p = malloc(size);
    CHECK_FOR(size, malloc_size_(p) == malloc_usable_size(p));
    CHECK_FOR(size, size > 1 << 20 || nallocx_(size, 0) == malloc_usable_size(p));
    cfree_(p);
    for (int lg = 0; lg < 22; ++lg) {
      void* aligned = aligned_alloc(size_t{1} << lg, size);
      CHECK_FOR(size, nallocx_(size, lg) <= malloc_usable_size(aligned));
      CHECK_FOR(size,
                size > 1 << 20 || lg > 20 || nallocx_(size, lg) == malloc_usable_size(aligned));
      free(aligned);
    }
  }
  for (size_t size = 1; size < 5000; ++size) {  // hardened: exact, also where the loader's were
    void* p = malloc(size);
    CHECK_FOR(size, nallocx_(size, 0) == malloc_usable_size(p));
    free(p);
  }
  free_sized_(nullptr, 0);
  sdallocx_(nullptr, 10, 0);
  CHECK(nallocx_(SIZE_MAX, 0) == 0);
  CHECK(malloc_size_(&failures) == 0);
}

void test_glibc_names() {
  void* p = find<void*(size_t)>("__libc_malloc")(100);
  p = find<void*(void*, size_t)>("__libc_realloc")(p, 200);
  CHECK(malloc_usable_size(p) >= 200);
  find<void(void*)>("__libc_free")(p);
  p = find<void*(size_t, size_t)>("__libc_calloc")(10, 10);
  CHECK(reads(p, 0, 100));
  free(p);
  p = find<void*(size_t, size_t)>("__libc_memalign")(256, 10);
  CHECK(is_aligned(p, 256));
  free(p);
  free(find<void*(size_t)>("__libc_valloc")(10));
  free(find<void*(size_t)>("__libc_pvalloc")(10));
  auto* aligned = find<int(void**, size_t, size_t)>("__posix_memalign");
  if (aligned == nullptr) return;
  CHECK(aligned(&p, 64, 10) == 0 && is_aligned(p, 64));
  free(p);
}

void check_cold(void* p, size_t alignment) {
  CHECK_FOR(alignment, p != nullptr && is_aligned(p, alignment));
  if (p != nullptr) use_whole(p, 100);
}

void test_hints() {
  struct Sized {
    void* p;
    size_t n;
  };
  static const std::nothrow_t quiet{};
  for (const char* w : {"w", "a"})
    for (const int hint : {0, 127, 128, 255})
      for (int i = 0; i < 50; ++i) {
        const auto name = [&](const char* rest) {
          static char text[100];
          snprintf(text, sizeof(text), "_Zn%sm%s12__hot_cold_t", w, rest);
          return text;
        };
        auto h = static_cast<uint8_t>(hint);
        auto* plain = find<void*(size_t, uint8_t)>(name(""));
        auto* nothrow = find<void*(size_t, const std::nothrow_t&, uint8_t)>(name("RKSt9nothrow_t"));
        auto* aligned = find<void*(size_t, size_t, uint8_t)>(name("St11align_val_t"));
        auto* both = find<void*(size_t, size_t, const std::nothrow_t&, uint8_t)>(
            name("St11align_val_tRKSt9nothrow_t"));
        if (failures != 0) return;
        void* objects[] = {plain(100, h), nothrow(100, quiet, h), aligned(100, 512, h),
                           both(100, 4096, quiet, h)};
        const size_t alignments[] = {16, 16, 512, 4096};
        for (int k = 0; k < 4; ++k) check_cold(objects[k], alignments[k]);
        for (int k = 0; k < 4; ++k) ::operator delete(objects[k]);
        CHECK(nothrow(SIZE_MAX, quiet, h) == nullptr);
        CHECK(both(SIZE_MAX, 64, quiet, h) == nullptr);
      }
  const auto give = [](Sized s, size_t alignment) {
    CHECK_FOR(alignment, s.n == malloc_usable_size(s.p) && is_aligned(s.p, alignment));
    ::operator delete(s.p);
  };
  give(find<Sized(size_t)>("__size_returning_new")(33), 16);
  give(find<Sized(size_t, size_t)>("__size_returning_new_aligned")(33, 256), 256);
  give(find<Sized(size_t, uint8_t)>("__size_returning_new_hot_cold")(33, 0), 16);
  give(find<Sized(size_t, size_t, uint8_t)>("__size_returning_new_aligned_hot_cold")(33, 256, 0),
       256);
}

// The entry points of clang's -fsanitize=alloc-token: the plain functions, and a token behind.
void test_tokens() {
  static const std::nothrow_t quiet{};
  constexpr size_t kToken = 2689373973731826898;
  const auto name = [](const char* function) {
    static char text[100];
    snprintf(text, sizeof(text), "__alloc_token_%s", function);
    return text;
  };
  const auto give = [](void* p, size_t alignment) {
    CHECK_FOR(alignment, p != nullptr && is_aligned(p, alignment));
    if (p != nullptr) use_whole(p, 100);
    free(p);
  };
  using Size = void*(size_t, size_t);
  using TwoSizes = void*(size_t, size_t, size_t);
  using Nothrow = void*(size_t, const std::nothrow_t&, size_t);
  using Both = void*(size_t, size_t, const std::nothrow_t&, size_t);
  give(find<Size>(name("malloc"))(100, kToken), 16);
  give(find<TwoSizes>(name("calloc"))(10, 10, kToken), 16);
  give(find<TwoSizes>(name("aligned_alloc"))(256, 100, kToken), 256);
  give(find<TwoSizes>(name("memalign"))(512, 100, kToken), 512);
  give(find<Size>(name("valloc"))(100, kToken), 4096);
  give(find<Size>(name("pvalloc"))(100, kToken), 4096);
  auto* p = find<void*(void*, size_t, size_t)>(name("realloc"))(malloc(10), 100, kToken);
  give(find<void*(void*, size_t, size_t, size_t)>(name("reallocarray"))(p, 10, 20, kToken), 16);
  CHECK(find<int(void**, size_t, size_t, size_t)>(name("posix_memalign"))(&p, 64, 100, kToken) ==
        0);
  give(p, 64);
  char text[60];
  const auto operator_name = [&](const char* kind, const char* rest) {
    snprintf(text, sizeof(text), "_Zn%sm%s", kind, rest);
    return name(text);
  };
  for (const char* kind : {"w", "a"}) {
    give(find<Size>(operator_name(kind, ""))(100, kToken), 16);
    give(find<Nothrow>(operator_name(kind, "RKSt9nothrow_t"))(100, quiet, kToken), 16);
    give(find<TwoSizes>(operator_name(kind, "St11align_val_t"))(100, 256, kToken), 256);
    give(find<Both>(operator_name(kind, "St11align_val_tRKSt9nothrow_t"))(100, 64, quiet, kToken),
         64);
    give(find<TwoSizes>(operator_name(kind, "12__hot_cold_t"))(100, 255, kToken), 16);
    give(find<void*(size_t, const std::nothrow_t&, int, size_t)>(
             operator_name(kind, "RKSt9nothrow_t12__hot_cold_t"))(100, quiet, 0, kToken),
         16);
    give(find<void*(size_t, size_t, int, size_t)>(
             operator_name(kind, "St11align_val_t12__hot_cold_t"))(100, 256, 0, kToken),
         256);
    give(find<void*(size_t, size_t, const std::nothrow_t&, int, size_t)>(operator_name(
             kind, "St11align_val_tRKSt9nothrow_t12__hot_cold_t"))(100, 64, quiet, 255, kToken),
         64);
  }
  for (const char* rest : {"", "_aligned", "_hot_cold", "_aligned_hot_cold"}) {
    snprintf(text, sizeof(text), "__size_returning_new%s", rest);
    struct Sized {
      void* p;
      size_t n;
    };
    // Of what follows the size, each takes none, the alignment, the hint, or both, then a token.
    const Sized s = find<Sized(size_t, size_t, size_t, size_t)>(name(text))(100, 128, 128, kToken);
    CHECK(s.n == malloc_usable_size(s.p) && s.n >= 100);
    give(s.p, 16);
  }
}

struct Wide {
  alignas(256) char bytes[300];
};

void test_operators() {
  for (int i = 0; i < 1000; ++i) {
    delete hidden(new int(i));
    delete[] hidden(new char[i]);
    Wide* wide = hidden(new Wide);
    CHECK(is_aligned(wide, 256));
    delete wide;
    delete[] hidden(new Wide[3]);
    ::operator delete(::operator new(i, std::nothrow), std::nothrow);
    void* aligned = hidden(::operator new(i, std::align_val_t{64}));
    CHECK(is_aligned(aligned, 64));
    ::operator delete(aligned, std::align_val_t{64});
    ::operator delete[](::operator new[](i, std::align_val_t{64}, std::nothrow),
                        std::align_val_t{64}, std::nothrow);
    ::operator delete(hidden(::operator new(i)), static_cast<size_t>(i));
    ::operator delete[](hidden(::operator new[](i)), static_cast<size_t>(i));
  }
}

// glibc's statistics answer for the heap that malloc works on, all three alike.
void test_statistics() {
  constexpr size_t kObjects = 20'000;
  static void* objects[kObjects];
  const struct mallinfo2 before = mallinfo2();
  for (void*& object : objects) object = malloc(1000);
  void* large = hidden(malloc(size_t{64} << 20));
  const struct mallinfo2 in_use = mallinfo2();
  CHECK_FOR(in_use.uordblks, in_use.uordblks >= before.uordblks + kObjects * 1000);
  CHECK_FOR(in_use.arena, in_use.arena == in_use.uordblks + in_use.fordblks);
  CHECK_FOR(in_use.hblks, in_use.hblks == before.hblks + 1);
  CHECK_FOR(in_use.hblkhd, in_use.hblkhd >= before.hblkhd + (size_t{64} << 20));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  CHECK(static_cast<size_t>(narrow.arena) == in_use.arena && narrow.hblks == 1);
  for (size_t i = 0; i < kObjects; ++i)
    if (i % 64 != 0) free(objects[i]);
  const struct mallinfo2 holes = mallinfo2();
  CHECK_FOR(holes.ordblks, holes.ordblks > kObjects / 16);
  CHECK_FOR(holes.uordblks, holes.uordblks < in_use.uordblks / 3);
  for (size_t i = 0; i < kObjects; i += 64) free(objects[i]);
  free(large);
  CHECK(mallinfo2().keepcost > 0);
  CHECK(malloc_trim(0) == 1);
  const struct mallinfo2 after = mallinfo2();
  CHECK_FOR(after.arena, after.arena < in_use.arena / 2);
  CHECK_FOR(after.keepcost, after.keepcost == 0);
  // The worker may hold a page back from the first call.
  int more = 0;
  while (more < 10 && malloc_trim(0) == 1) ++more;
  CHECK_FOR(more, more < 10);
}

void test_malloc_info() {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* out = open_memstream(&text, &bytes);
  CHECK(malloc_info(0, out) == 0);
  fclose(out);
  CHECK(strstr(text, "<malloc version=\"1\">") == text && strstr(text, "</malloc>\n") != nullptr);
  CHECK(strstr(text, "<system type=\"current\"") != nullptr);
  free(text);
  errno = 0;
  CHECK(malloc_info(1, stderr) == -1 && errno == EINVAL);
}

void test_mallopt() {
  CHECK(mallopt(M_MXFAST, 0) == 1 && mallopt(M_MXFAST, 160) == 1 && mallopt(M_MXFAST, 161) == 0);
  CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mallopt(M_MMAP_THRESHOLD, INT_MAX) == 0);
  CHECK(mallopt(M_ARENA_MAX, 2) == 1);
  CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1 && mallopt(M_TOP_PAD, 0) == 1);
  CHECK(mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_CHECK_ACTION, 3) == 1);
  CHECK(mallopt(12345, 1) == 0);
}

struct Part {
  const char* name;
  void (*run)();
};
constexpr Part kParts[] = {
    {"sizes", test_sizes},           {"alignments", test_alignments},
    {"refusals", test_refusals},     {"realloc", test_realloc},
    {"errno", test_errno_of_free},   {"sized", test_sized_frees},
    {"glibc", test_glibc_names},     {"hints", test_hints},
    {"tokens", test_tokens},         {"operators", test_operators},
    {"statistics", test_statistics}, {"malloc_info", test_malloc_info},
    {"mallopt", test_mallopt},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Part& part : kParts)
    if (argc < 2 || strcmp(argv[1], part.name) == 0) part.run();
  if (failures == 0) printf("ok %d\n", checks);
  return failures != 0 || checks == 0;
}
