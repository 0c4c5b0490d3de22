// SPDX-License-Identifier: Apache-2.0
// Runs a fuzzer's twin over its corpus once, where there is no libFuzzer: each argument that is no
// option is an input, or a folder of them. The compiler and its sanitizers are then those of the
// other tests. Prints how many inputs it ran; fails if there were none.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs_of(const fs::path& path) {
  std::vector<fs::path> inputs;
  if (!fs::is_directory(path)) return {path};
  for (const auto& entry : fs::directory_iterator(path)) inputs.push_back(entry.path());
  return inputs;
}

void run(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  // Seen after a crash, since nothing is buffered behind it.
  fprintf(stderr, "%s\n", path.c_str());
  // A buffer of exactly that size: a read past the input is one past the heap's object.
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    for (const fs::path& path : inputs_of(argv[i])) run(path), ++count;
  }
  printf("%zu inputs\n", count);
  if (count == 0) fprintf(stderr, "no input; give files or folders, such as tests/corpora/heap\n");
  return count == 0 ? 1 : 0;
}
