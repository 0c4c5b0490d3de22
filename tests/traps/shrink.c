/* SPDX-License-Identifier: Apache-2.0 */
/* realloc to a smaller size where no memory is left: it may say no, but the C library's does not,
   and programs that shrink a buffer do not expect it. */
#include <sys/resource.h>

#include "trap.h"

enum { kRoom = 256 << 20 };

int main(void) {
  const struct {
    size_t from, to;
  } rows[] = {{3 << 20, 300 << 10}, {700 << 10, 4 << 10}, {100 << 10, 10 << 10}, {9000, 100}};
  unsigned char* objects[COUNT_OF(rows)];
  for (size_t i = 0; i < COUNT_OF(rows); ++i) objects[i] = filled(rows[i].from, (unsigned char)i);
  const struct rlimit limit = {kRoom, kRoom};
  if (setrlimit(RLIMIT_AS, &limit) != 0) die("setrlimit: %s", strerror(errno));
  for (size_t size = 32 << 20; size >= 16; size /= 2)
    while (malloc(size) != NULL) {
    }
  int refused = 0;
  for (size_t i = 0; i < COUNT_OF(rows); ++i) {
    unsigned char* p = realloc(objects[i], rows[i].to);
    refused += p == NULL;
    check_and_free(p != NULL ? p : objects[i], rows[i].to, (unsigned char)i);
  }
  printf("%d of %zu refused\n", refused, COUNT_OF(rows));
  return refused;
}
