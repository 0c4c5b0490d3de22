// SPDX-License-Identifier: Apache-2.0
// The shared libraries only: dlopen and dlmopen. The C library's find out by their return address
// who calls, and look for the library and its names accordingly (RUNPATH, $ORIGIN, the caller's
// namespace). So ours do not call them: they jump there with the caller's arguments and address.
#include <dlfcn.h>

#include "runtime/deep_binding.h"
#include "shim/call_site.h"

using namespace llamalloc;

namespace {

// By the assembler's names, as headers declare most of them with types of their own.
#define API(symbol, origin, signature, contract) extern "C" void ours_##symbol() asm(#symbol);
#include "contracts/api.def"

constexpr ReplacedName kNames[] = {
#define API(symbol, origin, signature, contract) {#symbol, ours_##symbol},
#include "contracts/api.def"
};

void* nothing_opened() {
  return nullptr;
}

void* target(const char* name, const char* path, int flags) {
  if ((flags & RTLD_DEEPBIND) != 0 && path != nullptr)
    prepare_deep_binding(path, kNames, sizeof(kNames) / sizeof(kNames[0]));
  void* next = next_dlopen(name);
  return next != nullptr ? next : reinterpret_cast<void*>(nothing_opened);
}

}  // namespace

extern "C" {
#define LLAMALLOC_TARGET [[gnu::used, gnu::visibility("hidden")]] void*

LLAMALLOC_TARGET llamalloc_dlopen_target(const char* path, int flags) {
  return target("dlopen", path, flags);
}

LLAMALLOC_TARGET llamalloc_dlmopen_target(Lmid_t, const char* path, int flags) {
  return target("dlmopen", path, flags);
}
}

// Three registers hold the arguments of both; three words more align the stack for the call.
#define LLAMALLOC_JUMP(name)                                                                       \
  asm(".pushsection .text\n\t.p2align 4\n\t.globl " #name "\n\t.type " #name ", @function\n" #name \
      ":\n\t.cfi_startproc\n\tendbr64\n\t"                                                         \
      "pushq %rdi\n\t.cfi_adjust_cfa_offset 8\n\t"                                                 \
      "pushq %rsi\n\t.cfi_adjust_cfa_offset 8\n\t"                                                 \
      "pushq %rdx\n\t.cfi_adjust_cfa_offset 8\n\t"                                                 \
      "call llamalloc_" #name                                                                      \
      "_target\n\t"                                                                                \
      "popq %rdx\n\t.cfi_adjust_cfa_offset -8\n\t"                                                 \
      "popq %rsi\n\t.cfi_adjust_cfa_offset -8\n\t"                                                 \
      "popq %rdi\n\t.cfi_adjust_cfa_offset -8\n\t"                                                 \
      "jmpq *%rax\n\t.cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection");
LLAMALLOC_JUMP(dlopen)
LLAMALLOC_JUMP(dlmopen)
