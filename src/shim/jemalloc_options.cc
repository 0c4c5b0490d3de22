// SPDX-License-Identifier: Apache-2.0
// The shared libraries only. A program that was linked with jemalloc loads it for nothing, and its
// first tables take 6 MiB where the system makes all memory huge. jemalloc reads options from this
// name, and the loader takes the first: the program's own, if it has some, else ours. Later ones
// (/etc/malloc.conf, MALLOC_CONF) count more.
extern "C" __attribute__((visibility("default"))) const char* malloc_conf;
const char* malloc_conf = "thp:never";
