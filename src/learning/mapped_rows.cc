// SPDX-License-Identifier: Apache-2.0
#include "learning/mapped_rows.h"

namespace llamalloc {

void* map_rows(size_t bytes, PageSource& pages) {
  const size_t whole = align_up(bytes, kSmallPage);
  void* const rows = pages.map(whole, kSmallPage);
  if (rows != nullptr) pages.advise_huge(rows, whole, false);
  return rows;
}

void unmap_rows(void* rows, size_t bytes, PageSource& pages) {
  pages.unmap(rows, align_up(bytes, kSmallPage));
}

}  // namespace llamalloc
