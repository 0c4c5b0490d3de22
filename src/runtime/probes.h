// SPDX-License-Identifier: Apache-2.0
// USDT probes on sampled objects, by the contract of the OpenTelemetry eBPF profiler
// (open-telemetry/opentelemetry-ebpf-profiler, design-docs/00003-memory-profiling):
//
//   otel_memory:alloc(pointer, size, weighted_bytes)   a sampled allocation. weighted_bytes: the
//                                                      bytes that it stands for; their sum is what
//                                                      was allocated
//   otel_memory:free(pointer)                          of a sampled object
//
// While nobody is attached, a sample costs one load and a branch more.
#pragma once

#include <cstddef>

namespace llamalloc {

void probe_alloc(const void* p, size_t size, double weight);
void probe_free(const void* p);

}  // namespace llamalloc
