// SPDX-License-Identifier: Apache-2.0
// Does one thing that a program must not do with memory, and lives on if it is let.
//   misuse HOW [SIZE [filtered]]     filtered: whoever opens a file, or reads memory by a system
//                                    call, is killed
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

namespace {

char* volatile object;  // volatile: the optimiser shall not know better

[[gnu::noinline]] void allocate_here(size_t size) {
  object = static_cast<char*>(malloc(size));
}

char* inside_of_it() {
  char* volatile p = object + 16;
  return p;
}

void churn(size_t size) {
  for (int i = 0; i < 3000; ++i) {
    void* volatile p = malloc(size);
    free(p);
  }
}

bool filter_calls() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program{sizeof(code) / sizeof(code[0]), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  const size_t size = argc > 2 ? strtoul(argv[2], nullptr, 10) : 100;
  char on_stack[64];
  churn(8);  // the first allocation may find that sampling has just begun
  allocate_here(size);
  if (argc > 3 && !filter_calls()) return fprintf(stderr, "misuse: no filter\n"), 2;
  const auto is = [&](const char* name) { return strcmp(how, name) == 0; };
  if (is("nothing")) {
    memset(object, 1, size);
    free(object);
  } else if (is("twice")) {
    free(object);
    free(object);
  } else if (is("twice_later")) {
    free(object);
    for (int i = 0; i < 100; ++i) free(malloc(size));
    free(object);
  } else if (is("twice_in_thread")) {
    free(object);
    std::thread([] { free(object); }).join();
  } else if (is("foreign")) {
    char* volatile p = on_stack;
    free(p);
  } else if (is("interior")) {
    free(inside_of_it());
  } else if (is("resize_interior")) {
    free(realloc(inside_of_it(), 10));
  } else if (is("overrun")) {
    object[size] = 1;
    free(object);
  } else if (is("overrun_in_realloc")) {
    object[size] = 1;
    free(realloc(object, size * 2));
  } else if (is("write_after_free")) {
    free(object);
    object[size / 2] = 1;
    churn(size);
  } else if (is("wrong_size")) {
    ::operator delete(object, size / 2);
  } else if (is("wrong_size_up")) {
    ::operator delete(object, size * 4);
  } else {
    return fprintf(stderr, "misuse: no way called %s\n", how), 2;
  }
  printf("lived on\n");
  return 0;
}
