// SPDX-License-Identifier: Apache-2.0
// The dynamic loader's list of modules, read when it has changed: the one place that compares its
// counts. Who keeps records of modules (os/symbols.h, os/module_watch.h) brings them up to date
// here.
#pragma once

#include <link.h>

#include "os/loader.h"

namespace llamalloc {

// If modules came or went since `known` was taken: takes it again, calls start(), then visit(info)
// for each module. All under the loader's lock, so that names and notes stay mapped. Not inside
// malloc. False: nothing changed, nothing was called.
template <typename Start, typename Visit>
bool read_changed_modules(LoaderCounts& known, Start&& start, Visit&& visit) {
  struct Reading {
    LoaderCounts& known;
    Start& start;
    Visit& visit;
    bool changed = false;
  } reading{known, start, visit};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        Reading& r = *static_cast<Reading*>(argument);
        if (!r.changed) {
          const LoaderCounts now{info->dlpi_adds, info->dlpi_subs};
          if (r.known == now) return 1;
          r.known = now;
          r.changed = true;
          r.start();
        }
        r.visit(*info);
        return 0;
      },
      &reading);
  return reading.changed;
}

}  // namespace llamalloc
