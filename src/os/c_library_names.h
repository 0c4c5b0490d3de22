// SPDX-License-Identifier: Apache-2.0
// Redirects symbols of the C library. A library opened with RTLD_DEEPBIND looks up symbols in its
// own dependencies first. So it finds the C library's malloc, whatever is preloaded. Therefore we
// change the C library's symbol table itself to point to our functions:
//
//   plugin: free ---> its own scope: libc's symbol "free" { value: libc + 0x97e40 }
//                                                         { value: our free       }  replaced
//
// Existing bindings do not change. Later bindings find ours, including lazy ones and dlsym.
#pragma once

#include <cstddef>

namespace llamalloc {

struct ReplacedName {
  const char* name;
  void (*ours)();
};

// Skips names that the C library does not define. False: the system does not let us write to
// its table; nothing changed, or it was replaced before. Takes the loader's lock.
bool replace_c_library_names(const ReplacedName* names, size_t count);

}  // namespace llamalloc
