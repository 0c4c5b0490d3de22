// SPDX-License-Identifier: Apache-2.0
// 64 MiB, of which three quarters of every 2 MiB are freed, in a process that does without huge
// pages or has them:   own_huge_pages keep|off|late|advised|inherit
//   keep: they are not touched; off: off before the first object; late: after the last;
//   advised: off except where advised; inherit: off, and started again.
// Waits until a third of the memory is left, 20 s at most (4 s where it will not come to that), and
// prints MiB then, of those before.
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

constexpr size_t kSize = 4096, kObjects = (64 << 20) / kSize, kPiece = (2 << 20) / kSize;
char* objects[kObjects];

long resident_mib() {
  long total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4 / 1024;
}

bool switch_off(unsigned long flags) {
  return prctl(PR_SET_THP_DISABLE, 1, flags, 0, 0) == 0;
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  if (mode == "inherit" && switch_off(0)) return execl(argv[0], argv[0], "inherited", nullptr);
  if (mode == "off") switch_off(0);
  if (mode == "advised" && !switch_off(2)) {  // PR_THP_DISABLE_EXCEPT_ADVISED
    puts("not supported");
    return 0;
  }
  for (char*& object : objects) object = static_cast<char*>(memset(malloc(kSize), 1, kSize));
  if (mode == "late") switch_off(0);
  const long before = resident_mib();
  for (size_t i = 0; i < kObjects; ++i)
    if (i % kPiece >= kPiece / 4) free(objects[i]);
  const int waits = mode == "keep" || mode == "advised" ? 40 : 200;
  for (int i = 0; i < waits && resident_mib() > before / 3; ++i) usleep(100'000);
  printf("%ld of %ld\n", resident_mib(), before);
}
