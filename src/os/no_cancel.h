// SPDX-License-Identifier: Apache-2.0
// Threads that are cancelled (pthread_cancel) end in the next system call that is a cancellation
// point: open, read, write, close. In our code that would leave locks taken for ever.
#pragma once

namespace llamalloc {

// The calling thread is not cancelled while this stands; what is pending comes after.
class NoCancel {
 public:
  NoCancel();
  ~NoCancel();
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_;
};

}  // namespace llamalloc
