// SPDX-License-Identifier: Apache-2.0
// What the parent process was started with.
#pragma once

#include <cstddef>

namespace llamalloc {

// Whether a block of environment, "A=1\0B=2\0", has the variable with this value. It comes in
// pieces of any length.
class EnvironmentScan {
 public:
  EnvironmentScan(const char* name, const char* value) : name_(name), value_(value) {}
  void add(const char* piece, size_t length);
  bool found() const { return found_; }

 private:
  char expected() const;  // the next byte of NAME=VALUE\0

  const char* name_;
  const char* value_;
  size_t matched_ = 0;
  bool differs_ = false;  // this variable is another one
  bool found_ = false;
};

// False also where the parent belongs to another user, or has ended.
bool parent_has_variable(const char* name, const char* value);
// Whether the parent runs the file that this process runs; false as above.
bool parent_runs_this_program();

}  // namespace llamalloc
