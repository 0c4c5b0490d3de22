// SPDX-License-Identifier: Apache-2.0
#include "os/processor.h"

#include <sched.h>

namespace llamalloc {

uint32_t this_processor() {
  const int processor = sched_getcpu();
  return processor < 0 ? 0 : static_cast<uint32_t>(processor);
}

}  // namespace llamalloc
