// SPDX-License-Identifier: Apache-2.0
#include "sim/policy.h"

#include "sim/fit_policy.h"
#include "sim/paper_policy.h"
#include "sim/product_policy.h"
#include "sim/slab_policy.h"

namespace llamalloc::sim {
namespace {

template <typename T>
std::unique_ptr<Policy> opened(std::unique_ptr<T> policy) {
  return policy->open() ? std::move(policy) : nullptr;
}

}  // namespace

std::unique_ptr<Policy> make_policy(std::string_view name) {
  if (name == "llamalloc") return ProductPolicy::make();
  if (name == "paper-k2") return opened(std::make_unique<PaperPolicy>(2));
  if (name == "paper-k4") return opened(std::make_unique<PaperPolicy>(4));
  if (name == "slabs-fullest") return opened(std::make_unique<FullestSlabs>());
  if (name == "slabs-lowest") return opened(std::make_unique<LowestSlabs>());
  if (name == "first-fit") return std::make_unique<FitPolicy>(FitPolicy::Choice::first);
  if (name == "best-fit") return std::make_unique<FitPolicy>(FitPolicy::Choice::best);
  return nullptr;
}

std::unique_ptr<Policy> make_learning_policy(TraceInput& input, const LearningOptions& options,
                                             std::string* error) {
  return ProductPolicy::make_learning(input, options, error);
}

}  // namespace llamalloc::sim
