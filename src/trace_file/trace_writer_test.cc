// SPDX-License-Identifier: Apache-2.0
#include "trace_file/trace_writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace_file/test_traces.h"
#include "trace_file/trace_cut.h"

namespace llamalloc::trace {
namespace {

Tables random_tables(uint32_t stacks, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tables tables = golden_tables();
  while (tables.frames.size() < 500)
    tables.frames.push_back({random(), Frame::kNoModule, std::to_string(random())});
  while (tables.stacks.size() < stacks) {
    std::vector<uint32_t> frames(random() % 40);
    for (uint32_t& frame : frames) frame = static_cast<uint32_t>(random() % tables.frames.size());
    tables.stacks.add(frames);
  }
  return tables;
}

TEST(TraceFileWriter, WritesTheGoldenBytes) {
  const std::string path = write_trace("golden.trace", golden_tables(), golden_events(), 0);
  EXPECT_EQ(read_bytes(path), read_bytes(golden_path("trace_v1.trace")));
  unlink(path.c_str());
}

TEST(TraceFileWriter, RandomEventsComeBackAsTheyWere) {
  for (const int level : {0, 3}) {
    const auto events = random_events(200'000, 7, 3000);
    const std::string path = write_trace("random.trace", random_tables(3000, 8), events, level);
    std::string error;
    auto reader = TraceReader::open(path, &error);
    ASSERT_NE(reader, nullptr) << error;
    EXPECT_TRUE(read_all(*reader, 1000) == events) << reader->error();
    EXPECT_EQ(reader->tables().stacks.size(), 3000u);
    unlink(path.c_str());
  }
}

TEST(TraceFileWriter, AFullDiskIsTold) {
  std::string error;
  EXPECT_EQ(TraceFileWriter::create("/none/t.trace", {}, &error), nullptr);
  EXPECT_NE(error.find("No such file"), std::string::npos);
}

TEST(TraceFileWriter, ReplacesOrdinaryFilesOnly) {
  std::string error;
  const std::string pipe = temporary_path("pipe"), target = temporary_path("target"),
                    link = temporary_path("link");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(TraceFileWriter::create(pipe, {}, &error), nullptr);
  EXPECT_EQ(error, pipe + ": a folder, a device or a pipe; name an ordinary file");
  EXPECT_TRUE(TraceFileWriter::create(target, {}, &error)->close(&error));
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  EXPECT_TRUE(TraceFileWriter::create(link, {}, &error)->close(&error));
  struct stat found;
  EXPECT_TRUE(lstat(link.c_str(), &found) == 0 && S_ISLNK(found.st_mode));
  EXPECT_TRUE(lstat(target.c_str(), &found) == 0 && S_ISREG(found.st_mode));
  for (const std::string& path : {pipe, target, link}) unlink(path.c_str());
}

class CutTest : public testing::Test {
 protected:
  CutTest() : events_(random_events(20'000, 3, 300)) {
    path_ = write_trace("whole.trace", random_tables(300, 4), events_, 3);
    reader_ = TraceReader::open(path_, &error_);
    part_ = temporary_path("part.trace");
  }
  ~CutTest() override {
    unlink(path_.c_str());
    unlink(part_.c_str());
  }
  std::vector<Event> cut_to(const Window& window) {
    EXPECT_TRUE(cut(*reader_, window, part_, 3, &error_)) << error_;
    cut_ = TraceReader::open(part_, &error_);
    EXPECT_NE(cut_, nullptr) << error_;
    return read_all(*cut_);
  }

  std::vector<Event> events_;
  std::string path_, part_, error_;
  std::unique_ptr<TraceReader> reader_, cut_;
};

TEST_F(CutTest, TheWholeIsTheSame) {
  EXPECT_TRUE(cut_to({}) == events_);
  EXPECT_EQ(cut_->tables().frames.size(), reader_->tables().frames.size());
}

TEST_F(CutTest, TheFirstEventsAreTheFirst) {
  const auto some = cut_to({.max_events = 500});
  ASSERT_EQ(some.size(), 500u);
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].object, events_[i].object);
    EXPECT_EQ(some[i].time, events_[i].time);
    EXPECT_TRUE(std::ranges::equal(
        cut_->tables().stacks[some[i].stack], reader_->tables().stacks[events_[i].stack],
        [&](uint32_t a, uint32_t b) {
          return cut_->tables().frames[a].name == reader_->tables().frames[b].name;
        }));
  }
}

TEST_F(CutTest, AWindowBeginsWithWhatLives) {
  const uint64_t from = events_[9'000].time, to = events_[15'000].time;
  size_t live = 0, inside = 0;
  for (const Event& event : events_) {
    if (event.time < from && event.kind == EventKind::allocate) ++live;
    if (event.time < from && event.kind == EventKind::free) --live;
    if (event.time >= from && event.time < to) ++inside;
  }
  const auto some = cut_to({.from = from, .to = to});
  ASSERT_EQ(some.size(), live + inside);
  for (size_t i = 0; i < live; ++i) {
    EXPECT_EQ(some[i].kind, EventKind::allocate);
    EXPECT_EQ(some[i].time, 0u);
  }
  EXPECT_EQ(some.back().time, events_[14'999].time - from);
}

}  // namespace
}  // namespace llamalloc::trace
