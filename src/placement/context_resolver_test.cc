// SPDX-License-Identifier: Apache-2.0
#include "placement/context_resolver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr int kSizeClass = 3;
constexpr uintptr_t kSite = 0x1000, kWrapper = 0x2000, kLoader = 0x3000, kServer = 0x4000;

struct Frame {
  uintptr_t return_address;
  uint32_t bytes;  // up to and with the return address of its caller; 0: unknown
};

// A stack in memory, as the cache's key reads it, and as the unwinder sees it.
struct FakeStack {
  uintptr_t words[64] = {};
  StackTrace trace;

  explicit FakeStack(const std::vector<Frame>& frames) {
    size_t bytes = 0;
    for (const Frame& frame : frames) {
      if (trace.depth > 0 && bytes > 0) words[bytes / 8 - 1] = frame.return_address;
      trace.frames[trace.depth] = frame.return_address;
      trace.codes[trace.depth] = code_of(frame.return_address);
      trace.sizes[trace.depth++] = frame.bytes;
      bytes += frame.bytes;
    }
  }
  // 0: of no module, as for the unwinder.
  static uint64_t code_of(uintptr_t return_address) {
    return return_address == 0 ? 0 : return_address * 3 | 1;
  }
  // All sites have the same height.
  CallSite site() const { return {trace.frames[0], reinterpret_cast<uintptr_t>(&words[0])}; }
  StackBounds bounds() const {
    return {reinterpret_cast<uintptr_t>(&words[0]), reinterpret_cast<uintptr_t>(&words[64])};
  }
};

// A model's name table, and who knows the names of its frames.
class NameModel final : public KnownNames {
 public:
  // A node: the functions of its frames; size 0: of the site alone.
  void add(const std::vector<const char*>& functions, size_t size, uint8_t answer,
           LifetimeClass prior) {
    ContextPath path(frame_name_key(functions[0]), size_bucket(size));
    if (size != 0) path.descend(0);
    for (size_t i = 1; i < functions.size(); ++i) path.descend(frame_name_key(functions[i]));
    nodes_[path.key()] = {answer, static_cast<uint8_t>(prior)};
  }
  void add_caller(const char* function, LifetimeClass prior) {
    nodes_[ContextPath(caller_name_key(function), 0).key()] = {NodeTable::kOpen,
                                                               static_cast<uint8_t>(prior)};
  }
  const ModelEvidence& evidence() {
    keys_.clear(), answers_.clear();
    for (const auto& [key, answer] : nodes_) {
      keys_.push_back(key);
      answers_.insert(answers_.end(), {answer.first, answer.second});
    }
    evidence_.names = NodeTable(keys_.data(), answers_.data(), keys_.size(), 2);
    evidence_.priors = answers_.data() + 1;
    evidence_.prior_trust = prior_trust;
    evidence_.network_trust = network_trust;
    return evidence_;
  }
  bool name_frame(uintptr_t return_address, CodeModule*, FrameName* out) override {
    ++asked;
    *out = {};
    if (!names.contains(return_address)) return false;
    const FrameName name = frame_name(names[return_address]);
    if (evidence_.knows(name)) *out = name;
    return true;
  }

  std::map<uintptr_t, const char*> names{
      {kSite, "site"}, {kWrapper, "wrapper"}, {kLoader, "loader"}, {kServer, "server"}};
  float prior_trust[kNearnesses] = {0.9f, 0.9f, 0.9f, 0.9f};
  float network_trust[kNearnesses] = {-1, -1, -1, -1};
  int asked = 0;

 private:
  std::map<uint64_t, std::pair<uint8_t, uint8_t>> nodes_;
  std::vector<uint64_t> keys_;
  std::vector<uint8_t> answers_;
  ModelEvidence evidence_;
};

class ContextResolverTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(resolver_.open(arena_)); }

  struct Known {
    std::vector<uintptr_t> frames;  // of one: the site
    size_t size;                    // 0: the site alone
    bool deeper;
    LifetimeClass lifetime;
  };
  void teach(const std::vector<Known>& all) {
    resolver_.tree().begin();
    for (const Known& known : all) {
      ContextPath path(FakeStack::code_of(known.frames[0]), size_bucket(known.size));
      if (known.size != 0) path.descend(0);
      for (size_t i = 1; i < known.frames.size(); ++i)
        path.descend(FakeStack::code_of(known.frames[i]));
      ASSERT_TRUE(resolver_.tree().add(path.key(), known.deeper, known.lifetime));
    }
    resolver_.tree().publish();
  }
  ContextResolver::Answer ask(const FakeStack& stack, size_t size = 100) {
    return resolver_.resolve(stack.trace.frames[0], stack.trace.codes[0], size, cache_->sites,
                             [&](StackTrace* trace) { ++walks_, *trace = stack.trace; });
  }
  uint64_t key(const FakeStack& stack) const {
    return cache_->context_key(stack.site(), stack.bounds(), kSizeClass);
  }
  // The site and its size decide nothing; its callers do.
  void teach_callers(LifetimeClass of_loader, LifetimeClass of_server) {
    teach({{{kSite}, 0, true, LifetimeClass::mixed},
           {{kSite}, 100, true, LifetimeClass::mixed},
           {{kSite, kLoader}, 100, false, of_loader},
           {{kSite, kServer}, 100, false, of_server}});
  }

  FakePages pages_;
  MetadataArena arena_{pages_};
  ContextResolver resolver_;
  std::unique_ptr<PredictionCache> cache_ = std::make_unique<PredictionCache>();
  int walks_ = 0;
};

TEST_F(ContextResolverTest, KnowsNothingAtFirst) {
  EXPECT_FALSE(ask(FakeStack({{kSite, 32}, {kServer, 0}})).known);
  ContextResolver closed;
  EXPECT_FALSE(closed.is_open());
  const FakeStack stack({{kSite, 32}});
  EXPECT_FALSE(closed
                   .resolve(kSite, 1, 100, cache_->sites,
                            [&](StackTrace* trace) { ++walks_, *trace = stack.trace; })
                   .known);
  EXPECT_EQ(walks_, 0);
}

TEST_F(ContextResolverTest, TheSiteDecidesWithoutAWalk) {
  teach({{{kSite}, 0, false, LifetimeClass::le_10ms}});
  const auto answer = ask(FakeStack({{kSite, 32}, {kServer, 0}}));
  EXPECT_TRUE(answer.known);
  EXPECT_TRUE(answer.by_site);
  EXPECT_EQ(answer.lifetime, LifetimeClass::le_10ms);
  EXPECT_FALSE(ask(FakeStack({{kServer, 32}})).known);
  EXPECT_EQ(walks_, 0);
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 0u);
}

TEST_F(ContextResolverTest, TheSizeDecidesWithoutAWalk) {
  teach({{{kSite}, 0, true, LifetimeClass::mixed},
         {{kSite}, 100, false, LifetimeClass::never},
         {{kSite}, 32, false, LifetimeClass::le_3s}});
  const FakeStack stack({{kSite, 32}, {kServer, 0}});
  EXPECT_EQ(ask(stack, 100).lifetime, LifetimeClass::never);
  EXPECT_EQ(ask(stack, 97).lifetime, LifetimeClass::never) << "of one bucket";
  EXPECT_EQ(ask(stack, 20).lifetime, LifetimeClass::le_3s);
  EXPECT_TRUE(ask(stack, 20).by_site);
  EXPECT_TRUE(ask(stack, 20).known);
  EXPECT_FALSE(ask(stack, 1000).known);
  EXPECT_EQ(walks_, 0);
}

TEST_F(ContextResolverTest, CallersDecide) {
  teach_callers(LifetimeClass::never, LifetimeClass::le_10ms);
  const FakeStack loader({{kSite, 32}, {kLoader, 0}}), server({{kSite, 32}, {kServer, 0}});
  EXPECT_TRUE(ask(loader).known);
  EXPECT_FALSE(ask(loader).by_site);
  EXPECT_EQ(walks_, 2) << "once for each question";
  EXPECT_EQ(ask(loader).lifetime, LifetimeClass::never);
  EXPECT_EQ(ask(server).lifetime, LifetimeClass::le_10ms);
  EXPECT_FALSE(ask(FakeStack({{kSite, 32}, {0x5000, 0}})).known) << "another caller";
  EXPECT_FALSE(ask(loader, 1000).known) << "another size";
}

TEST_F(ContextResolverTest, NoCallerIsNotACallerOfNoModule) {
  teach({{{kSite}, 0, true, LifetimeClass::mixed},
         {{kSite}, 100, true, LifetimeClass::mixed},
         {{kSite, 0}, 100, false, LifetimeClass::never}});
  EXPECT_TRUE(ask(FakeStack({{kSite, 32}, {0, 0}})).known);
  EXPECT_FALSE(ask(FakeStack({{kSite, 32}})).known);
}

TEST_F(ContextResolverTest, TheKeyThenHoldsWhatTheAnswerDependsOn) {
  teach_callers(LifetimeClass::never, LifetimeClass::le_10ms);
  const FakeStack loader({{kSite, 32}, {kLoader, 0}}), server({{kSite, 32}, {kServer, 0}});
  ASSERT_EQ(key(loader), key(server)) << "not looked past yet";
  ask(loader);
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 32u);
  EXPECT_EQ(cache_->sites.frame_bytes(kLoader), 0u) << "nothing depends on its callers";
  EXPECT_NE(key(loader), key(server));
}

TEST_F(ContextResolverTest, EachFrameOnTheWayIsLookedPast) {
  teach({{{kSite}, 0, true, LifetimeClass::mixed},
         {{kSite}, 100, true, LifetimeClass::mixed},
         {{kSite, kWrapper}, 100, true, LifetimeClass::mixed},
         {{kSite, kWrapper, kLoader}, 100, false, LifetimeClass::never},
         {{kSite, kWrapper, kServer}, 100, false, LifetimeClass::le_10ms}});
  const FakeStack loader({{kSite, 32}, {kWrapper, 48}, {kLoader, 16}});
  const FakeStack server({{kSite, 32}, {kWrapper, 48}, {kServer, 16}});
  ASSERT_EQ(key(loader), key(server));
  EXPECT_EQ(ask(server).lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(ask(loader).lifetime, LifetimeClass::never);
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 32u);
  EXPECT_EQ(cache_->sites.frame_bytes(kWrapper), 48u);
  EXPECT_NE(key(loader), key(server));
}

TEST_F(ContextResolverTest, TellsThePathThatDecides) {
  teach({{{kSite}, 0, true, LifetimeClass::mixed},
         {{kSite}, 100, true, LifetimeClass::mixed},
         {{kSite, kWrapper}, 100, true, LifetimeClass::mixed},
         {{kSite, kWrapper, kLoader}, 100, false, LifetimeClass::never},
         {{kServer}, 0, false, LifetimeClass::never}});
  const FakeStack stack({{kSite, 32}, {kWrapper, 48}, {kLoader, 16}, {kServer, 0}});
  const CallPath path = ask(stack).path;
  ASSERT_EQ(path.callers, 2);
  EXPECT_EQ(path.frames[0], kSite);
  EXPECT_EQ(path.frames[1], kWrapper);
  EXPECT_EQ(path.frames[2], kLoader);
  EXPECT_EQ(path.bytes[0], 32u);
  EXPECT_EQ(path.bytes[1], 48u);
  const CallPath of_site = ask(FakeStack({{kServer, 32}, {kLoader, 0}})).path;
  EXPECT_EQ(of_site.callers, 0);
  EXPECT_EQ(of_site.frames[0], kServer);
}

TEST_F(ContextResolverTest, CountsTheCallersThatAreAsked) {
  teach({{{kSite}, 0, true, LifetimeClass::mixed},
         {{kSite}, 100, true, LifetimeClass::mixed},
         {{kSite, kWrapper}, 100, true, LifetimeClass::mixed},
         {{kSite, kWrapper, kLoader}, 100, false, LifetimeClass::never},
         {{kSite}, 1000, false, LifetimeClass::never},
         {{kServer}, 0, false, LifetimeClass::never}});
  const FakeStack deep({{kSite, 32}, {kWrapper, 48}, {kLoader, 16}, {kServer, 0}});
  EXPECT_EQ(resolver_.callers_asked(deep.trace, 100), 2);
  EXPECT_EQ(resolver_.callers_asked(deep.trace, 1000), 0);
  EXPECT_EQ(resolver_.callers_asked(FakeStack({{kServer, 32}, {kLoader, 0}}).trace, 100), 0);
  const FakeStack other({{kSite, 32}, {kWrapper, 48}, {kServer, 16}}), cut({{kSite, 32}});
  EXPECT_EQ(resolver_.callers_asked(other.trace, 100), kCallersOfUnknown);
  EXPECT_EQ(resolver_.callers_asked(cut.trace, 100), kCallersOfUnknown);
  EXPECT_EQ(resolver_.callers_asked({}, 100), kCallersOfUnknown);
  EXPECT_EQ(ContextResolver().callers_asked(deep.trace, 100), kCallersOfUnknown);
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 0u) << "it only looks";
}

TEST_F(ContextResolverTest, AFrameWhoseSizeVariesIsNotLookedPast) {
  teach_callers(LifetimeClass::never, LifetimeClass::le_10ms);
  const FakeStack small({{kSite, 32}, {kLoader, 0}}), large({{kSite, 64}, {kLoader, 0}});
  EXPECT_FALSE(ask(small).varies);
  ASSERT_EQ(cache_->sites.frame_bytes(kSite), 32u);
  const auto answer = ask(large);
  EXPECT_TRUE(answer.known) << "it is answered all the same";
  EXPECT_TRUE(answer.varies && !answer.whole) << "and paths through it do not hold any more";
  EXPECT_FALSE(ask(large).varies) << "which is known by now";
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 0u);
  for (int i = 0; i < 3; ++i) {
    ask(small);
    EXPECT_EQ(cache_->sites.frame_bytes(kSite), 0u);
    ask(large);
    EXPECT_EQ(cache_->sites.frame_bytes(kSite), 0u);
  }
}

TEST_F(ContextResolverTest, ForgetsFramesOfCodeThatIsGone) {
  teach_callers(LifetimeClass::never, LifetimeClass::le_10ms);
  const FakeStack small({{kSite, 32}, {kLoader, 0}}), large({{kSite, 64}, {kLoader, 0}});
  ask(small);
  ask(large);
  resolver_.forget_if([](uintptr_t site) { return site == kLoader; });
  ask(small);
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 0u) << "other code is gone";
  resolver_.forget_if([](uintptr_t site) { return site == kSite; });
  ask(small);
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 32u);
}

TEST_F(ContextResolverTest, AFrameOfUnknownOrOddSizeIsNotLookedPast) {
  teach_callers(LifetimeClass::never, LifetimeClass::le_10ms);
  for (const uint32_t bytes : {0u, 36u, SiteTable::kMostBytes, SiteTable::kMostBytes + 8}) {
    FakeStack stack({{kSite, 32}, {kLoader, 0}});
    stack.trace.sizes[0] = bytes;
    EXPECT_TRUE(ask(stack).known);
    EXPECT_FALSE(ask(stack).whole) << bytes;
    EXPECT_EQ(cache_->sites.frame_bytes(kSite), 0u) << bytes;
  }
  ask(FakeStack({{kSite, 32}, {kLoader, 0}}));
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 32u) << "none of them counted as another size";
  FakeStack unknown({{kSite, 32}, {kLoader, 0}});
  unknown.trace.sizes[0] = 0;
  ask(unknown);
  EXPECT_EQ(cache_->sites.frame_bytes(kSite), 32u) << "nor does it now";
}

TEST_F(ContextResolverTest, AsksTheExactTableOfAModelForWhatTheTreeDoesNotKnow) {
  const FakeStack one({{kSite, 32}, {kWrapper, 48}, {kLoader, 64}});
  const FakeStack two({{kSite, 32}, {kWrapper, 48}, {kServer, 64}});
  std::vector<std::pair<uint64_t, uint8_t>> nodes;
  ContextPath path(one.trace.codes[0], size_bucket(100));
  for (const uint64_t code : {uint64_t{0}, one.trace.codes[1], one.trace.codes[2]}) {
    nodes.push_back({path.key(), NodeTable::kDeeper});
    path.descend(code);
  }
  nodes.push_back({path.key(), static_cast<uint8_t>(LifetimeClass::le_3s)});
  std::sort(nodes.begin(), nodes.end());
  std::vector<uint64_t> keys;
  std::vector<uint8_t> answers;
  for (const auto& [node_key, answer] : nodes) keys.push_back(node_key), answers.push_back(answer);
  ModelEvidence model;
  model.exact = NodeTable(keys.data(), answers.data(), keys.size(), 1);

  ContextResolver resolver;  // nothing is learned: it has no tree
  ASSERT_FALSE(resolver.is_open());
  ASSERT_TRUE(resolver.use(model, nullptr, arena_));
  ASSERT_TRUE(resolver.is_open());
  const auto ask_it = [&](const FakeStack& stack, size_t size) {
    return resolver.resolve(stack.trace.frames[0], stack.trace.codes[0], size, cache_->sites,
                            [&](StackTrace* trace) { *trace = stack.trace; });
  };
  EXPECT_TRUE(ask_it(one, 100).known);
  EXPECT_EQ(ask_it(one, 100).lifetime, LifetimeClass::le_3s);
  EXPECT_FALSE(ask_it(one, 100).learned);
  EXPECT_FALSE(ask_it(two, 100).known);
  EXPECT_FALSE(ask_it(one, 1000).known);

  ASSERT_TRUE(resolver_.use(model, nullptr, arena_));
  teach({{{kSite}, 0, false, LifetimeClass::never}});
  EXPECT_EQ(ask(one).lifetime, LifetimeClass::never);  // what is learned here comes first
  EXPECT_TRUE(ask(one).learned);
}

constexpr uint8_t byte_of(LifetimeClass lifetime) {
  return static_cast<uint8_t>(lifetime);
}

TEST_F(ContextResolverTest, NamesAnswerWhatNoFrameOfThisBuildIsKnownOf) {
  using enum LifetimeClass;
  NameModel model;
  model.add({"site"}, 0, NodeTable::kDeeper, mixed);
  model.add({"site"}, 100, byte_of(le_10ms), le_10ms);
  ASSERT_TRUE(resolver_.use(model.evidence(), &model, arena_));
  const FakeStack stack({{kSite, 32}, {kLoader, 0}});
  const auto answer = ask(stack);
  EXPECT_TRUE(answer.known && answer.by_site && answer.whole);
  EXPECT_FALSE(answer.learned);
  EXPECT_EQ(answer.lifetime, le_10ms);
  EXPECT_EQ(walks_, 0) << "the site decides: no stack is needed";
  EXPECT_EQ(ask(stack, 1000).lifetime, mixed) << "another size: the prior of the site";
  teach({{{kSite}, 0, false, never}});
  EXPECT_EQ(ask(stack).lifetime, never) << "what is learned here comes first";
}

// In the table of paths, the answer for the site would hide the callers that are known.
TEST_F(ContextResolverTest, NamesDoNotDecideASiteOfWhichCallersAreKnown) {
  using enum LifetimeClass;
  NameModel model;
  model.add({"site"}, 0, NodeTable::kDeeper, mixed);
  model.add({"site"}, 100, byte_of(le_10ms), le_10ms);
  ASSERT_TRUE(resolver_.use(model.evidence(), &model, arena_));
  teach_callers(never, le_3s);
  const auto answer = ask(FakeStack({{kSite, 32}, {kWrapper, 0}}));
  EXPECT_TRUE(answer.known && !answer.learned);
  EXPECT_EQ(answer.lifetime, le_10ms);
  EXPECT_FALSE(answer.by_site);
  EXPECT_EQ(ask(FakeStack({{kSite, 32}, {kLoader, 0}})).lifetime, never);
}

TEST_F(ContextResolverTest, NamedCallersDecideAndAreLookedPast) {
  using enum LifetimeClass;
  NameModel model;
  model.add({"site"}, 0, NodeTable::kDeeper, mixed);
  model.add({"site"}, 100, NodeTable::kDeeper, mixed);
  model.add({"site", "wrapper"}, 100, NodeTable::kDeeper, mixed);
  model.add({"site", "wrapper", "loader"}, 100, byte_of(never), never);
  model.add({"site", "wrapper", "server"}, 100, byte_of(le_10ms), le_10ms);
  for (const char* name : {"site", "wrapper", "loader", "server"}) model.add_caller(name, mixed);
  ASSERT_TRUE(resolver_.use(model.evidence(), &model, arena_));
  const FakeStack loader({{kSite, 32}, {kWrapper, 48}, {kLoader, 16}});
  const FakeStack server({{kSite, 32}, {kWrapper, 48}, {kServer, 16}});
  ASSERT_EQ(key(loader), key(server));
  EXPECT_EQ(ask(loader).lifetime, never);
  EXPECT_EQ(walks_, 1);
  const auto answer = ask(server);
  EXPECT_TRUE(answer.known && answer.whole && !answer.by_site);
  EXPECT_EQ(answer.lifetime, le_10ms);
  EXPECT_NE(key(loader), key(server));
  FakeStack odd({{kSite, 32}, {kWrapper, 48}, {kServer, 16}});
  odd.trace.sizes[1] = 36;
  EXPECT_FALSE(ask(odd).whole);
}

TEST_F(ContextResolverTest, ThePriorAnswersWhereItIsTrustedAndTheNetworkIsNotAsked) {
  using enum LifetimeClass;
  NameModel model;
  model.add_caller("loader", le_3s);
  ASSERT_TRUE(resolver_.use(model.evidence(), &model, arena_));
  const FakeStack stack({{kSite, 32}, {kWrapper, 48}, {kLoader, 16}, {kServer, 0}});
  const auto answer = ask(stack);
  EXPECT_TRUE(answer.known && !answer.by_site && answer.whole);
  EXPECT_EQ(answer.lifetime, le_3s);
  EXPECT_EQ(cache_->sites.frame_bytes(kWrapper), 48u);
  EXPECT_EQ(cache_->sites.frame_bytes(kLoader), 0u) << "nothing depends on its callers";
  const auto caller = static_cast<int>(Nearness::caller);
  model.network_trust[caller] = 0.95f;
  EXPECT_FALSE(ask(stack).known) << "it is the worker's";
  model.network_trust[caller] = -1;
  model.prior_trust[caller] = 0.4f;
  EXPECT_FALSE(ask(stack).known);
}

TEST_F(ContextResolverTest, AFrameWhoseNameIsNotKnownNowIsLeftToTheWorker) {
  using enum LifetimeClass;
  NameModel model;
  model.add({"site"}, 0, NodeTable::kDeeper, le_3s);
  model.add({"site"}, 100, NodeTable::kDeeper, le_3s);
  model.add({"site", "loader"}, 100, byte_of(never), never);
  model.add_caller("loader", never);
  ASSERT_TRUE(resolver_.use(model.evidence(), &model, arena_));
  const FakeStack stack({{kSite, 32}, {kLoader, 0}});
  model.names.erase(kLoader);
  EXPECT_FALSE(ask(stack).known) << "not the prior of the site";
  model.names.erase(kSite);
  EXPECT_FALSE(ask(stack).known);
  model.names[kSite] = "site";
  EXPECT_TRUE(ask(FakeStack({{kSite, 32}, {kServer, 0}})).known) << "another caller: the prior";
  EXPECT_TRUE(ask(FakeStack({{kSite, 32}})).known) << "no caller: the prior";
}

}  // namespace
}  // namespace llamalloc
