// SPDX-License-Identifier: Apache-2.0
// The writer against contracts/golden/profile_v1_cpp.pb.gz, byte by byte. Other readers of the
// format read the same file (python/tests, tests/pprof_open_test.py: the numbers stand there).
// LLAMALLOC_UPDATE_GOLDEN=1 writes it anew.
#include "profile/pprof_writer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/code_key.h"
#include "profile/profile_test_util.h"
#include "profile/profiler.h"

namespace llamalloc {
namespace {

constexpr const char* kGolden = LLAMALLOC_SOURCE_DIR "/contracts/golden/profile_v1_cpp.pb.gz";
constexpr uintptr_t kMain = 0x555500001000, kServe = 0x555500002000, kStripped = 0x55550001a2c0,
                    kVector = 0x7f0000003000, kStart = 0x7f1000001000, kNowhere = 0x1234;

class Golden {
 public:
  Golden() {
    names_.add_module(0x7f1000000000, 0x7f1000100000, "/lib/libc.so.6", "");
    names_.add_module(0x555500000000, 0x555500100000, "/srv/my server", "\x01\xAB\xFF");
    names_.add_module(0x7f0000000000, 0x7f0000100000, "/lib/libgr\xC3\xBC\xC3\x9F.so", "\x20\x21");
    names_.add_name(kMain, "main");
    names_.add_name(kServe, "_ZN5serve7requestEi");
    names_.add_name(kStripped, "?my server+0x1a2b0");
    names_.add_name(kVector, "_ZNSt6vectorIiSaIiEE9push_backERKi");
    names_.add_name(kStart, "main");  // two places of one name share a function
    profiler_.tell_history(Nanos::seconds(100));
    profiler_.start(4096, Nanos::seconds(100));
  }

  std::string write() {
    // 4 KiB, 3 of 5 die after 1, 2 and 4 ms, one on another thread and CPU.
    for (uint32_t i = 0; i < 5; ++i)
      allocate(0x1000 + i, 4096, {kVector, kServe, kMain, kStart}, i);
    for (uint32_t i = 0; i < 3; ++i) free(0x1000 + i, (1 << i) * 1'000'000, i, i == 1);
    // 100 bytes, resized to 120, alive; the same stack at 0 bytes, dead at once.
    allocate(0x2000, 100, {kStripped, kMain}, 0);
    profiler_.on_resize(at(0x2000), 120);
    allocate(0x2001, 0, {kStripped, kMain}, 0);
    free(0x2001, 0, 0, false);
    // From code that belongs to no module.
    allocate(0x3000, 1 << 20, {kNowhere}, 0);
    test::BufferSink sink;
    EXPECT_TRUE(profiler_.write(sink, names_,
                                {.now = Nanos::seconds(160),
                                 .wall_time = Nanos::seconds(1'700'000'060),
                                 .at_exit = true,
                                 .program = "my-server"}));
    return sink.text;
  }

 private:
  static const void* at(uintptr_t address) { return reinterpret_cast<const void*>(address); }
  static Nanos born(uint32_t i) { return Nanos::seconds(150) + Nanos::millis(i); }

  void allocate(uintptr_t address, size_t size, std::initializer_list<uintptr_t> stack,
                uint32_t i) {
    StackTrace trace;
    for (const uintptr_t frame : stack) trace.frames[trace.depth++] = frame;
    ASSERT_TRUE(
        profiler_.on_alloc(at(address), size, trace, 1, LifetimeClass::mixed, born(i), 7, 1));
  }
  void free(uintptr_t address, int64_t lifetime, uint32_t i, bool elsewhere) {
    ASSERT_TRUE(
        profiler_.on_free(at(address), born(i) + Nanos{lifetime}, 7 + elsewhere, 1 + elsewhere)
            .found);
  }

  MetadataArena arena_{system_pages};
  Profiler profiler_{arena_, system_pages};
  test::TableNames names_;
};

TEST(PprofWriter, WritesTheGoldenProfile) {
  const std::string written = Golden().write();
  if (getenv("LLAMALLOC_UPDATE_GOLDEN") != nullptr)
    std::ofstream(kGolden, std::ios::binary) << written;
  std::ifstream file(kGolden, std::ios::binary);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(golden.empty()) << kGolden;
  EXPECT_TRUE(written == golden) << "the written profile differs from " << kGolden;
}

TEST(PprofWriter, OrdersMappingsByAddressAndSharesFunctions) {
  test::Message profile = test::parse(test::gunzip_stored(Golden().write()));
  const auto& strings = profile.bytes[6];
  ASSERT_EQ(profile.bytes[3].size(), 3u);
  std::vector<std::string> files, build_ids;
  for (const std::string& s : profile.bytes[3]) {
    test::Message m = test::parse(s);
    files.push_back(strings.at(m.numbers[5].at(0)));
    build_ids.push_back(strings.at(m.numbers[6].at(0)));
  }
  EXPECT_EQ(files,
            (std::vector<std::string>{"/srv/my server", "/lib/libgr____.so", "/lib/libc.so.6"}));
  EXPECT_EQ(build_ids, (std::vector<std::string>{"01abff", "2021", ""}));
  EXPECT_EQ(profile.bytes[4].size(), 6u);
  EXPECT_EQ(profile.bytes[5].size(), 5u);
}

// A module whose frames cannot be numbered by its mapping alone.
TEST(PprofWriter, SaysWhereAModuleBeginsAndItsBuild) {
  for (const bool follows : {true, false}) {
    MetadataArena arena(system_pages);
    Profiler profiler(arena, system_pages);
    test::TableNames names;
    const uint8_t id[] = {1, 2, 3};
    const uintptr_t start = 0x200005000;  // of offset 2
    names.add_module(start, start + 0x1000, "/lib/lld.so", "\1\2\3",
                     follows ? start - 2 : 0x200001000, hash_build_id(id, 3));
    profiler.start(4096, {0});
    StackTrace trace;
    trace.frames[trace.depth++] = start + 0x10;
    ASSERT_TRUE(profiler.on_alloc(reinterpret_cast<const void*>(16), 100, trace, 1,
                                  LifetimeClass::mixed, {1}, 0, 0));
    test::BufferSink sink;
    ASSERT_TRUE(profiler.write(sink, names, {{2}, {2}, false}));
    test::Message profile = test::parse(test::gunzip_stored(sink.text));
    const auto& comments = profile.numbers[13];
    ASSERT_EQ(comments.size(), follows ? 1u : 2u);
    if (follows) continue;
    char expected[80];
    snprintf(expected, sizeof(expected), "llamalloc-module 1 200001000 %llx",
             static_cast<unsigned long long>(hash_build_id(id, 3)));
    EXPECT_EQ(profile.bytes[6].at(comments.back()), expected);
  }
}

TEST(PprofWriter, FrameNamesArePrintable) {
  const auto samples = test::read_samples(Golden().write());
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].stack, (std::vector<std::string>{"_ZNSt6vectorIiSaIiEE9push_backERKi",
                                                        "_ZN5serve7requestEi", "main", "main"}));
  EXPECT_EQ(samples[1].stack, (std::vector<std::string>{"?my_server+0x1a2b0", "main"}));
  EXPECT_EQ(samples[3].stack, std::vector<std::string>{"?"});
}

extern "C" __attribute__((noinline)) void profile_test_site() {
  asm volatile("nop; nop; nop");
}

// The real symboliser, on this very program.
TEST(PprofWriter, NamesTheFunctionsOfTheProcess) {
  MetadataArena arena(system_pages);
  Profiler profiler(arena, system_pages);
  Symboliser symboliser(arena, system_pages);
  profiler.start(64, {0});
  StackTrace trace;
  trace.depth = 1;
  trace.frames[0] = reinterpret_cast<uintptr_t>(&profile_test_site) + 1;
  ASSERT_TRUE(profiler.on_alloc(this, 64, trace, 0, LifetimeClass::mixed, {0}, 0, 0));
  test::BufferSink sink;
  ASSERT_TRUE(profiler.write(sink, symboliser, {{1}, {1}, false}));
  EXPECT_EQ(test::read_samples(sink.text).at(0).stack.at(0), "profile_test_site");
  test::Message profile = test::parse(test::gunzip_stored(sink.text));
  test::Message mapping = test::parse(profile.bytes[3].at(0));
  EXPECT_LE(mapping.numbers[2].at(0), trace.frames[0]);
  EXPECT_GT(mapping.numbers[3].at(0), trace.frames[0]);
  const std::string file = profile.bytes[6].at(mapping.numbers[5].at(0));
  EXPECT_EQ(file.substr(file.size() - 12), "profile_test");
}

// Larger than every buffer on the way, with names longer than a frame name may be.
TEST(PprofWriter, WritesLargeProfiles) {
  MetadataArena arena(system_pages);
  Profiler profiler(arena, system_pages);
  test::TableNames names;
  profiler.start(64, {0});
  for (uintptr_t i = 1; i <= 3000; ++i) {
    StackTrace trace;
    trace.depth = kMaxFrames;
    for (uintptr_t d = 0; d < kMaxFrames; ++d) trace.frames[d] = i + d;
    names.add_name(i, i % 1000 == 0 ? std::string(100'000, 'x') : "f" + std::to_string(i));
    ASSERT_TRUE(profiler.on_alloc(reinterpret_cast<const void*>(i * 16), i, trace, 0,
                                  LifetimeClass::mixed, {0}, 0, 0));
  }
  test::BufferSink sink;
  ASSERT_TRUE(profiler.write(sink, names, {{1}, {1}, false}));
  const auto samples = test::read_samples(sink.text);
  ASSERT_EQ(samples.size(), 3000u);
  EXPECT_EQ(samples[1233].stack.size(), static_cast<size_t>(kMaxFrames));
  EXPECT_EQ(samples[1233].stack[63], "f1297");
  EXPECT_EQ(samples[999].stack[0], std::string(16 * 1024 - 1, 'x'));
}

}  // namespace
}  // namespace llamalloc
