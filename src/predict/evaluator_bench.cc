// SPDX-License-Identifier: Apache-2.0
// How long a prediction takes: evaluator_bench [MODEL]. Without a model: 5,000 tokens, E = 32, H
// = 64, D = 16.
#include "predict/evaluator.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "predict/test_model.h"

namespace llamalloc {
namespace {

std::vector<std::string> vocabulary() {
  std::vector<std::string> tokens = {"<unk>", "@", "#1024"};
  for (int i = 0; i < 4997; ++i) tokens.push_back("token" + std::to_string(i));
  return tokens;
}

// Median over 1,000 calls, in microseconds.
template <typename Call>
double median(const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < 1000; ++i) {
    const Nanos start = system_pages.now();
    call();
    times.push_back(static_cast<double>((system_pages.now() - start).n) / 1000);
  }
  std::nth_element(times.begin(), times.begin() + 500, times.end());
  return times[500];
}

// Frames of 7 tokens, so that no token is beyond the last depth.
void time_lengths(Evaluator& evaluator) {
  for (int count : {20, 50, 100, 127}) {
    std::vector<uint32_t> ids(count, kSeparatorId);
    for (int i = 0; i < count; ++i)
      if (i % 8 < 7)
        ids[i] = 2 + static_cast<uint32_t>(i * 37) % (evaluator.config().vocabulary - 2);
    float probability[kLifetimeClasses];
    const double time =
        median([&] { evaluator.network().run(ids.data(), count, size_row(1024), probability); });
    printf("network    %3d tokens  %7.2f us\n", count, time);
  }
}

void time_contexts(Evaluator& evaluator) {
  const std::vector<const char*> frames(12, "_ZN6token17token28token345E");
  const double time = median([&] { evaluator.evaluate(frames.data(), 12, 1000); });
  printf("evaluate    12 frames  %7.2f us\n", time);
}

int main(const char* path) {
  MetadataArena arena(system_pages);
  char error[512];
  const Nanos start = system_pages.now();
  Evaluator* evaluator = Evaluator::load(path, arena, error, sizeof(error));
  if (evaluator == nullptr) return fprintf(stderr, "%s\n", error), 1;
  const Nanos loaded = system_pages.now();
  printf("load     %.1f us, tables %zu bytes\n", static_cast<double>((loaded - start).n) / 1000,
         arena.used_bytes());
  time_lengths(*evaluator);
  time_contexts(*evaluator);
  return 0;
}

}  // namespace
}  // namespace llamalloc

int main(int argc, char** argv) {
  if (argc > 1) return llamalloc::main(argv[1]);
  const std::string path = std::string(argv[0]) + ".model";
  std::ofstream(path, std::ios::binary)
      << llamalloc::TestModel(llamalloc::vocabulary(), 32, 64, 16).bytes();
  const int status = llamalloc::main(path.c_str());
  remove(path.c_str());
  return status;
}
