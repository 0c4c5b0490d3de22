// SPDX-License-Identifier: Apache-2.0
// How many of its objects may stay in a context that has shown none that does.
//
// Of 40 samples of a context none stays. That says little if one in 100 stays in most others: then
// it does so here, too, and the sample of it is yet to come. It says much if contexts keep all or
// nothing. So contexts tell of each other (empirical Bayes): a context keeps a share p of its
// objects, and p is drawn from a distribution that all contexts together show.
//
//   n  samples of a context        w[j]  share of the contexts that keep kShares[j]
//   k  of them outlive `brief`     hidden(n) = sum of w p (1-p)^n / sum of w (1-p)^n
//
// The weights are fitted by expectation and maximisation, one pass a round: it starts where the
// last round ended. Before the first one, what earlier runs know is gone over until little moves.
// What is added to each weight keeps one that no context asks for from being ruled out, and says
// that most contexts keep nothing until some show otherwise.
#pragma once

#include "learning/evidence.h"

namespace llamalloc {

// The same of a family, the parts of a node: where its members keep one in 100, that of all others
// says little of them. It begins with the distribution of all, counted as kOfAll contexts.
class StayPrior {
 private:
  static constexpr double kShares[] = {0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.9};
  static constexpr int kCount = sizeof(kShares) / sizeof(kShares[0]);

 public:
  // Contexts of a family by the share that they keep; zeroes are none.
  struct Family {
    float sums[kCount];
  };

  // Above this share the objects that stay are taken to pin the pages of those that die.
  static constexpr double kMostHidden = 3e-4;

  // A pass: begin, all contexts, end. True: the weights moved, so another pass says more.
  void begin();
  void add(const Evidence& context);
  bool end();

  // Of its family, which is zero before its first one.
  void add_to(Family* family, const Evidence& context) const;

  // The expected share of objects that stay, where none of so many samples did.
  double hidden(uint32_t samples, const Family& family = {}) const;
  // Whether a context that seems to die soon does so as a whole, as far as can be known.
  bool is_sure(const Evidence& context, const Family& family = {}) const;

 private:
  // likely[j]: of the context, how likely each share is. False: it says nothing.
  bool weigh(const Evidence& context, double (&likely)[kCount]) const;

  static constexpr double kAtLeast = 0.02;  // contexts
  static constexpr double kNothing = 4;     // that keep nothing
  static constexpr double kOfAll = 4;

  double weights_[kCount] = {kNothing, kAtLeast, kAtLeast, kAtLeast, kAtLeast,
                             kAtLeast, kAtLeast, kAtLeast, kAtLeast, kAtLeast};
  double sums_[kCount] = {};
};

}  // namespace llamalloc
