// SPDX-License-Identifier: Apache-2.0
// The gate's record when several processes of one program share a state file: each adds what it
// measured itself, and none undoes what another one decided meanwhile.
//
//   own      of this process when it read or wrote the file last
//   written  in the file then, with what others measured
//   mine     of this process now
//   theirs   in the file now
//
// Who measured nothing since then says nothing. Where both measured, means are weighted by rounds,
// and of two verdicts that differ the more careful one holds: a wrong "fails" costs nothing. That
// predictions failed is no measurement: it yields to one that the other made.
#pragma once

#include "learning/gate.h"

namespace llamalloc {

struct GateBase {
  GateKept own, written;
  GateBase(const GateKept& mine, const GateKept& all) : own(mine), written(all) {}
  GateBase(const GateKept& both = {}) : GateBase(both, both) {}
};
GateKept merge_gates(const GateBase& base, const GateKept& mine, const GateKept& theirs);

}  // namespace llamalloc
