// SPDX-License-Identifier: Apache-2.0
// What the names of the C library stand for. A library opened with RTLD_DEEPBIND looks for names
// among its own dependencies first and therefore finds the C library's malloc, whatever is
// preloaded. So the C library's table of symbols itself has to say where ours is:
//
//   plugin: free ---> its own scope: libc's symbol "free" { value: libc + 0x97e40 }
//                                                         { value: our free       }  replaced
//
// Nothing that was bound before changes. Later bindings, lazy ones and dlsym among them, find ours.
#pragma once

#include <cstddef>

namespace llamalloc {

struct ReplacedName {
  const char* name;
  void (*ours)();
};

// Those that the C library does not define are left out. False: the system does not let us write to
// its table; nothing changed, or it was replaced before. Takes the loader's lock.
bool replace_c_library_names(const ReplacedName* names, size_t count);

}  // namespace llamalloc
