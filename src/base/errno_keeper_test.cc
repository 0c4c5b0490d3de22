// SPDX-License-Identifier: Apache-2.0
#include "base/errno_keeper.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

TEST(ErrnoKeeper, PutsBackWhatWasThere) {
  errno = EDOM;
  {
    const ErrnoKeeper keep;
    errno = ENOMEM;
    EXPECT_EQ(errno, ENOMEM);
  }
  EXPECT_EQ(errno, EDOM);
}

}  // namespace
}  // namespace llamalloc
