// SPDX-License-Identifier: Apache-2.0
// Memory that is freed so that it goes back in one way alone, while another process watches.
//
//   fill  ->  {"live": ...}  ->  (a byte on standard input)  ->  free  ->  {"freed": ...}  ->  idle
//
// empty: small objects, all freed. sparse: of each 2 MiB of them the first stays. mappings: objects
// of 5 MiB, all freed. No object shares memory with the program's own tables.
#include <algorithm>
#include <cstring>

#include "../load_program.h"

const char* const kProgram = "given_back";

namespace {

enum class Kind { empty, sparse, mappings };

constexpr size_t kSmall = 400, kMapping = 5 << 20, kPage = 2 << 20;

struct Settings {
  Kind kind = Kind::empty;
  size_t bytes = 200 << 20;
};

class Load {
 public:
  explicit Load(const Settings& settings)
      : kind_(settings.kind),
        size_(kind_ == Kind::mappings ? kMapping : kSmall),
        count_(std::max<size_t>(settings.bytes / size_, 1)),
        objects_(count_) {}

  size_t fill() {
    for (size_t i = 0; i < count_; ++i) objects_[i] = filled<char>(size_);
    return count_ * size_;
  }
  // Returns the bytes that it freed.
  size_t release() {
    size_t freed = 0;
    uintptr_t page = 0;
    for (size_t i = 0; i < count_; ++i) {
      const uintptr_t of_this = reinterpret_cast<uintptr_t>(objects_[i]) / kPage;
      if (kind_ == Kind::sparse && of_this != page) {
        page = of_this;
        continue;
      }
      std::free(objects_[i]);
      freed += size_;
    }
    return freed;
  }

 private:
  const Kind kind_;
  const size_t size_, count_;
  Table<char*> objects_;
};

const char kHelp[] =
    "usage: given_back [--kind empty|sparse|mappings] [--live MiB]\n"
    "\n"
    "Fills --live (200) MiB, says {\"live\": ...} and waits for a byte on standard input. Then it\n"
    "frees as the kind (empty) demands, says {\"freed\": ...}, and stays until standard input "
    "ends.\n";

constexpr const char* kKinds[] = {"empty", "sparse", "mappings"};

Settings parse(char** argv) {
  Settings s;
  for (Words words(argv, kHelp); words.next();) {
    if (words.is("--kind"))
      s.kind = choice<Kind>("--kind", words.value(), kKinds);
    else if (words.is("--live"))
      s.bytes = words.mebibytes();
    else
      misused(words.word());
  }
  return s;
}

void say(const char* what, size_t bytes) {
  std::printf("{\"%s\": %zu}\n", what, bytes);
  std::fflush(stdout);
}

}  // namespace

int main(int, char** argv) {
  static Load load(parse(argv));
  say("live", load.fill());
  char byte;
  if (read(STDIN_FILENO, &byte, 1) != 1) return 0;
  say("freed", load.release());
  wait_to_be_measured();
}
