// SPDX-License-Identifier: Apache-2.0
#include "predict/context_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr int kClasses = static_cast<int>(LifetimeClass::mixed) + 1;
// The slot where a key's search begins, by the picture in the header: above the low 8 bits.
constexpr uint64_t kSlots = uint64_t{1} << ContextTree::kShift;
constexpr uint64_t key_at(uint64_t slot, uint64_t number) {
  return slot << 8 | (number + 1) << (8 + ContextTree::kShift);
}

class ContextTreeTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(tree_.open(arena_)); }

  void show(const std::vector<uint64_t>& keys, LifetimeClass lifetime) {
    tree_.begin();
    for (const uint64_t key : keys) ASSERT_TRUE(tree_.add(key, false, lifetime));
    tree_.publish();
  }
  bool knows(uint64_t key) const { return tree_.find(key).found; }

  FakePages pages_;
  MetadataArena arena_{pages_};
  ContextTree tree_;
};

// A process that knows little is to pay little: a page or two of the table.
TEST_F(ContextTreeTest, AFewNodesLieCloseTogether) {
  std::mt19937_64 random(5);
  for (const size_t count : {size_t{3}, size_t{100}, size_t{20'000}, size_t{50}}) {
    std::vector<uint64_t> keys(count);
    std::generate(keys.begin(), keys.end(), std::ref(random));
    for (int table = 0; table < 2; ++table) {
      tree_.begin(count);
      for (const uint64_t key : keys) ASSERT_TRUE(tree_.add(key, false, LifetimeClass::le_3s));
      EXPECT_FALSE(tree_.add(random(), false, LifetimeClass::le_3s)) << "as many as it was told";
      tree_.publish();
    }
    for (const uint64_t key : keys) ASSERT_TRUE(knows(key));
    EXPECT_FALSE(knows(random()));
  }
}

// The figures of contracts/learned_state.md, Example.
TEST(ContextPath, HasTheKeysOfTheContract) {
  ContextPath path(0xDFA6969D32359FB7, 64);
  EXPECT_EQ(path.key(), 0x683AC6244D3B9180u);
  EXPECT_EQ(path.level(), 1);
  EXPECT_EQ(path.next_frame(), 0);
  path.descend(0xDEAD);  // a frame, which level 2 does not have
  EXPECT_EQ(path.key(), 0x15CACAA93FADA18Cu);
  EXPECT_EQ(path.level(), 2);
  EXPECT_EQ(path.next_frame(), 1);
  path.descend(0x427C48BB7E9B2031);
  EXPECT_EQ(path.key(), 0xA9EB7DCC4CA9DEC9u);
  EXPECT_EQ(path.level(), 3);
  EXPECT_EQ(path.next_frame(), 2);
}

TEST(ContextPath, TellsSizesFromLevelTwoOn) {
  ContextPath small(7, 16), large(7, 32);
  EXPECT_EQ(small.key(), large.key());
  small.descend(8);
  large.descend(8);
  EXPECT_NE(small.key(), large.key());
}

TEST_F(ContextTreeTest, FindsWhatWasPublished) {
  tree_.begin();
  EXPECT_TRUE(tree_.add(key_at(1, 0), false, LifetimeClass::le_10ms));
  EXPECT_TRUE(tree_.add(key_at(2, 0), true, LifetimeClass::mixed));
  EXPECT_TRUE(tree_.add(key_at(3, 0), false, LifetimeClass::never));
  EXPECT_FALSE(knows(key_at(1, 0))) << "not shown yet";
  tree_.publish();
  EXPECT_EQ(tree_.find(key_at(1, 0)).lifetime, LifetimeClass::le_10ms);
  EXPECT_FALSE(tree_.find(key_at(1, 0)).deeper);
  EXPECT_EQ(tree_.find(key_at(2, 0)).lifetime, LifetimeClass::mixed);
  EXPECT_TRUE(tree_.find(key_at(2, 0)).deeper);
  EXPECT_EQ(tree_.find(key_at(3, 0)).lifetime, LifetimeClass::never);
  EXPECT_FALSE(knows(key_at(4, 0)));
  EXPECT_FALSE(knows(key_at(1, 1)));
}

TEST_F(ContextTreeTest, KeepsTheOldTableUntilTheNewOneIsShown) {
  show({key_at(1, 0), key_at(2, 0)}, LifetimeClass::le_3s);
  tree_.begin();
  ASSERT_TRUE(tree_.add(key_at(2, 0), false, LifetimeClass::never));
  ASSERT_TRUE(tree_.add(key_at(3, 0), false, LifetimeClass::never));
  EXPECT_TRUE(knows(key_at(1, 0)));
  EXPECT_EQ(tree_.find(key_at(2, 0)).lifetime, LifetimeClass::le_3s);
  EXPECT_FALSE(knows(key_at(3, 0)));
  tree_.publish();
  EXPECT_FALSE(knows(key_at(1, 0)));
  EXPECT_EQ(tree_.find(key_at(2, 0)).lifetime, LifetimeClass::never);
  EXPECT_TRUE(knows(key_at(3, 0)));
  show({}, LifetimeClass::mixed);
  EXPECT_FALSE(knows(key_at(2, 0)));
  show({key_at(1, 0)}, LifetimeClass::mixed);
  EXPECT_FALSE(knows(key_at(3, 0))) << "two tables ago";
}

// Also where the search goes on at the table's start.
TEST_F(ContextTreeTest, KeysOfOneSlotAreToldApart) {
  for (const uint64_t slot : {uint64_t{0}, kSlots / 2, kSlots - 2, kSlots - 1}) {
    tree_.begin();
    for (uint64_t i = 0; i < 40; ++i)
      ASSERT_TRUE(tree_.add(key_at(slot, i), i % 2 != 0, static_cast<LifetimeClass>(i % kClasses)));
    tree_.publish();
    for (uint64_t i = 0; i < 40; ++i) {
      const ContextTree::Node node = tree_.find(key_at(slot, i));
      ASSERT_TRUE(node.found) << slot << " " << i;
      EXPECT_EQ(node.deeper, i % 2 != 0);
      EXPECT_EQ(node.lifetime, static_cast<LifetimeClass>(i % kClasses));
    }
    EXPECT_FALSE(knows(key_at(slot, 40)));
    EXPECT_FALSE(knows(key_at((slot + 1) % kSlots, 0)));
  }
}

TEST_F(ContextTreeTest, AFullTableRefusesMoreAndKeepsWhatItHas) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 3; ++round) {
    std::vector<uint64_t> keys(ContextTree::kMostNodes);
    std::generate(keys.begin(), keys.end(), std::ref(random));
    show(keys, LifetimeClass::le_100s);
    for (const uint64_t key : keys) ASSERT_TRUE(knows(key));
    for (int i = 0; i < 10'000; ++i) ASSERT_FALSE(knows(random()));
    tree_.begin();
    for (const uint64_t key : keys) tree_.add(key, false, LifetimeClass::le_3s);
    EXPECT_FALSE(tree_.add(random(), false, LifetimeClass::le_3s));
  }
}

// Else it would change what readers have just left.
TEST_F(ContextTreeTest, NothingIsAddedBeforeBegin) {
  show({key_at(1, 0)}, LifetimeClass::le_3s);
  EXPECT_FALSE(tree_.add(key_at(2, 0), false, LifetimeClass::le_3s));
}

TEST(ContextTreeMemory, WithoutMemoryItIsClosedAndKnowsNothing) {
  FakePages pages;
  pages.calls_left = 0;
  MetadataArena arena(pages);
  ContextTree tree;
  EXPECT_FALSE(tree.open(arena));
  EXPECT_FALSE(tree.is_open());
  EXPECT_FALSE(tree.find(1).found);
}

// Each table holds the same keys, in another order and with another class. A reader that is not
// late, since the worker waits for it before it begins anew, sees every key, with the class of a
// table that was shown while it looked.
TEST_F(ContextTreeTest, ReadersSeeWholeTablesWhileTheWorkerFillsTheNext) {
  constexpr int kReaders = 2;
  constexpr uint32_t kTables = 20;
  std::vector<uint64_t> keys(2'000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = key_at(i % 500 * 3, i);
  const auto class_in_table = [](uint32_t table) {
    return static_cast<LifetimeClass>(table % static_cast<uint32_t>(kTimedClasses));
  };
  show(keys, class_in_table(0));
  std::atomic<uint32_t> shown{0}, passes[kReaders]{}, missing{0}, wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r)
    readers.emplace_back([&, r] {
      for (size_t i = static_cast<size_t>(r); !stop; i += 7) {
        const uint32_t before = shown;
        const ContextTree::Node node = tree_.find(keys[i % keys.size()]);
        const uint32_t after = shown + 1;  // it may be shown, and not yet counted
        bool known = false;
        for (uint32_t table = before; table <= after; ++table)
          known = known || node.lifetime == class_in_table(table);
        missing += !node.found;
        wrong += node.found && !known;
        ++passes[r];
      }
    });
  for (uint32_t table = 1; table < kTables; ++table) {
    for (auto& reader : passes)
      for (const uint32_t from = reader; reader - from < 2;) std::this_thread::yield();
    tree_.begin();
    for (size_t i = 0; i < keys.size(); ++i)
      ASSERT_TRUE(tree_.add(keys[(i + table * 13) % keys.size()], false, class_in_table(table)));
    tree_.publish();
    shown = table;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace llamalloc
