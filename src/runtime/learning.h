// SPDX-License-Identifier: Apache-2.0
// Learning in process (option `learn`): samples become a tree of contexts (policy/learner.h), which
// answers first-seen contexts in their own thread, from the first allocation of the next run on.
#pragma once

#include "base/units.h"

namespace llamalloc {

// From the constructor, when options are read. True: placement starts switched on.
bool start_learning();
bool is_learning();
// By the worker, each round of work.
void learn_if_due(Nanos now);
void save_learned_at_exit();
void learning_after_fork_in_child();

}  // namespace llamalloc
