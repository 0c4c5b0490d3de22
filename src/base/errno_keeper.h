// SPDX-License-Identifier: Apache-2.0
// errno as the caller knows it: malloc sets it itself where it fails, and free leaves it alone.
#pragma once

#include <cerrno>

namespace llamalloc {

// Puts errno back at the end of the scope, whatever the system calls in it made of it.
class ErrnoKeeper {
 public:
  ErrnoKeeper() = default;
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;
  ~ErrnoKeeper() { errno = saved_; }

 private:
  const int saved_ = errno;
};

}  // namespace llamalloc
