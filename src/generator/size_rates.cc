// SPDX-License-Identifier: Apache-2.0
#include "generator/size_rates.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace llamalloc::generator {

std::vector<SizeRate> read_size_rates(const std::string& path, std::string* error) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "r"), fclose);
  if (!file) {
    *error = path + ": " + strerror(errno) + "; name a file such as TCMALLOC_1.csv";
    return {};
  }
  std::vector<SizeRate> rows;
  char line[256];
  for (int number = 1; fgets(line, sizeof line, file.get()); ++number) {
    SizeRate row{};
    unsigned long long size = 0;
    char rest = 0;
    const int found = sscanf(line, "%llu , %lf , %lf %c", &size, &row.rate, &row.live, &rest);
    if (found != 3 || size == 0 || !(row.rate > 0) || !(row.live >= 0)) {
      *error = path + ":" + std::to_string(number) +
               ": not `size, allocations a second, live objects`; see workloads/fleetbench";
      return {};
    }
    row.size = size;
    rows.push_back(row);
  }
  if (rows.empty()) *error = path + ": is empty; name a file such as TCMALLOC_1.csv";
  return rows;
}

double live_bytes(const std::vector<SizeRate>& rows) {
  double sum = 0;
  for (const SizeRate& row : rows) sum += row.live * static_cast<double>(row.size);
  return sum;
}

}  // namespace llamalloc::generator
