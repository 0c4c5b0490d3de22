// SPDX-License-Identifier: Apache-2.0
#include "os/processor.h"

#include <sched.h>

namespace llamalloc {

uint32_t this_processor() {
  unsigned processor = 0;
  getcpu(&processor, nullptr);
  return processor;
}

}  // namespace llamalloc
