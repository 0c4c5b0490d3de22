// SPDX-License-Identifier: Apache-2.0
#include "os/static_tls.h"

#include <link.h>

namespace llamalloc {
namespace {

int add_module(dl_phdr_info* module, size_t, void* sum) {
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module->dlpi_phdr[i];
    if (header.p_type == PT_TLS) *static_cast<size_t*>(sum) += header.p_memsz + header.p_align;
  }
  return 0;
}

}  // namespace

size_t thread_local_bytes() {
  size_t bytes = 0;
  dl_iterate_phdr(add_module, &bytes);
  return bytes;
}

}  // namespace llamalloc
