// SPDX-License-Identifier: Apache-2.0
// What only the product does: it samples its objects and stops trusting contexts that outlive.
#include "sim/product_policy.h"

#include <gtest/gtest.h>

namespace llamalloc::sim {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr int kObjects =
    64 << 10;  // 256 MiB: some 500 samples, and too large a heap to share pages

class ProductPolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(policy_, nullptr);
    std::string error;
    ASSERT_TRUE(policy_->configure("segregate:always", &error)) << error;
  }

  std::vector<uint64_t> allocate(int count, uint32_t context) {
    std::vector<uint64_t> made;
    for (int i = 0; i < count; ++i)
      made.push_back(policy_->allocate({kBytes, now_, 0, LifetimeClass::le_3s, 4, context}));
    return made;
  }
  void pass(Nanos time) {
    const Nanos end = now_ + time;
    for (; now_ < end; now_ = now_ + Nanos::millis(100)) policy_->advance(now_);
  }
  // In the middle of many, where pages are filled up in order.
  uint64_t huge_page_of_new(uint32_t context) {
    return allocate(3, context).back() >> kHugePageShift;
  }

  std::unique_ptr<ProductPolicy> policy_ = ProductPolicy::make();
  Nanos now_ = Nanos::seconds(1000);
};

TEST_F(ProductPolicyTest, AContextWhoseObjectsOutliveTheirClassIsDemoted) {
  allocate(kObjects, 7);
  EXPECT_EQ(policy_->demotions(), 0u);
  pass(Nanos::seconds(20));  // past `transient`, which ends at 3 s
  EXPECT_GE(policy_->demotions(), 1u);
  EXPECT_NE(huge_page_of_new(7), huge_page_of_new(8)) << "context 8 is still trusted";
}

TEST_F(ProductPolicyTest, AContextWhoseObjectsDieInTimeIsTrusted) {
  for (const uint64_t object : allocate(kObjects, 7)) policy_->free(object, kBytes, 0, now_);
  pass(Nanos::seconds(20));
  EXPECT_EQ(policy_->demotions(), 0u);
  EXPECT_EQ(huge_page_of_new(7), huge_page_of_new(8));
}

TEST_F(ProductPolicyTest, AnObjectThatIsFreedLateDemotesItsContext) {
  const auto objects = allocate(kObjects, 7);
  now_ = now_ + Nanos::seconds(30);  // nobody looked meanwhile
  for (const uint64_t object : objects) policy_->free(object, kBytes, 0, now_);
  EXPECT_GE(policy_->demotions(), 1u);
}

// Under the gate.
class GatedPolicyTest : public ProductPolicyTest {
 protected:
  void SetUp() override { ASSERT_NE(policy_, nullptr); }
  bool is_placing() const { return policy_->gate_notes().back().placing; }
  std::string sentence() const { return policy_->gate_notes().back().says; }
};
constexpr GateKept kProof{GateVerdict::on_trial, 0, {1, 50, 400, 200, 2000}, {}, 500};

TEST_F(GatedPolicyTest, AModelStartsBlind) {
  const uint64_t page = huge_page_of_new(7);
  policy_->allocate({kBytes, now_, 0, LifetimeClass::mixed, 4, 8});
  EXPECT_EQ(policy_->allocate({kBytes, now_, 0, LifetimeClass::mixed, 4, 8}) >> kHugePageShift,
            page);
  EXPECT_FALSE(is_placing());
}

TEST_F(GatedPolicyTest, WhereTheOptionDecidesNoGateIsNamed) {
  std::string error;
  ASSERT_TRUE(policy_->configure("segregate:never", &error)) << error;
  policy_->take_evidence(kProof);
  allocate(1, 7);
  EXPECT_EQ(sentence(), "placement by lifetime is off: segregate:never");
  EXPECT_EQ(policy_->gate_notes().back().verdict, GateVerdict::untried);
  EXPECT_FALSE(is_placing());
}

TEST_F(ProductPolicyTest, WhereTheOptionPlacesNoGateIsNamed) {
  allocate(1, 7);
  EXPECT_EQ(policy_->gate_notes().back().says, "placement by lifetime is on: segregate:always");
}

TEST_F(GatedPolicyTest, AModelThatBringsProofPlacesUntilItFails) {
  policy_->take_evidence(kProof);
  allocate(kObjects, 7);
  EXPECT_TRUE(is_placing());
  pass(Nanos::seconds(11));
  EXPECT_TRUE(is_placing()) << "they may be within their bound of 3 s on another machine";
  pass(Nanos::seconds(3));
  EXPECT_FALSE(is_placing());
}

// Measured although nothing is placed by it.
TEST_F(GatedPolicyTest, PredictionsAreMeasuredWhileTheGateIsOff) {
  allocate(kObjects, 7);
  pass(Nanos::seconds(6));
  const auto notes = policy_->gate_notes();
  EXPECT_GE(policy_->demotions(), 1u);
  EXPECT_FALSE(is_placing());
}

TEST_F(ProductPolicyTest, WithoutPredictionsNothingIsSampled) {
  for (int i = 0; i < kObjects; ++i)
    policy_->allocate({kBytes, now_, 0, LifetimeClass::mixed, 4, 7});
  pass(Nanos::seconds(20));
  EXPECT_EQ(policy_->demotions(), 0u);
  EXPECT_TRUE(policy_->is_consistent());
}

}  // namespace
}  // namespace llamalloc::sim
