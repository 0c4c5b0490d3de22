// SPDX-License-Identifier: Apache-2.0
#include "os/no_cancel.h"

#include <pthread.h>

namespace llamalloc {

NoCancel::NoCancel() {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
}

NoCancel::~NoCancel() {
  pthread_setcancelstate(before_, nullptr);
}

}  // namespace llamalloc
