// SPDX-License-Identifier: Apache-2.0
// limits_kinds FIRST THEN MIB: objects of FIRST bytes, up to MIB or until one fails; of each 2 MiB
// of them the first 1/64 stays. Then objects of THEN bytes, the same; prints how many MiB of them.
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

// Room for so many is there already.
void fill(std::vector<void*>& objects, size_t size) {
  while (objects.size() < objects.capacity()) {
    auto* const object = static_cast<volatile char*>(std::malloc(size));
    if (!object) break;
    *object = 1;
    objects.push_back(const_cast<char*>(object));
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  const size_t first = std::strtoul(words[1], nullptr, 10);
  const size_t then = std::strtoul(words[2], nullptr, 10);
  const size_t bytes = std::strtoul(words[3], nullptr, 10) << 20;
  std::vector<void*> objects, others;
  objects.reserve(bytes / first);
  others.reserve(bytes / then);
  fill(objects, first);
  const size_t each = (size_t{2} << 20) / first;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % each >= (each + 63) / 64) std::free(objects[i]);
  }
  fill(others, then);
  std::printf("%zu\n", others.size() * then >> 20);
}
