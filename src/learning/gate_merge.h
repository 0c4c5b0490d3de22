// SPDX-License-Identifier: Apache-2.0
// The gate's record when several processes of one program share a state file: each adds what it
// measured itself, and none undoes what another one decided meanwhile.
//
//   base    in the file when this process read or wrote it last
//   mine    of this process now
//   theirs  in the file now
//
// Who measured nothing since base says nothing. Where both measured, means are weighted by rounds,
// and of two verdicts that differ the more careful one holds: a wrong "fails" costs nothing. That
// predictions failed is no measurement: it yields to one that the other made.
#pragma once

#include "learning/gate.h"

namespace llamalloc {

GateKept merge_gates(const GateKept& base, const GateKept& mine, const GateKept& theirs);

}  // namespace llamalloc
