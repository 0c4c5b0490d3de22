// SPDX-License-Identifier: Apache-2.0
// libFuzzer over read_model: whatever the bytes, it refuses with a message or gives a model that
// can be run.   model_file_fuzz NEW_CORPUS_FOLDER contracts/golden
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/lifetime_class.h"
#include "predict/model_file.h"

namespace llamalloc {
namespace {

// Memory that is given out from the start again for each input.
class FuzzPages final : public PageSource {
 public:
  void reset() {
    memset(memory_.data(), 0, used_);
    used_ = 0;
  }
  void* map(size_t bytes, size_t alignment) override {
    const size_t start = align_up(reinterpret_cast<size_t>(memory_.data()) + used_, alignment) -
                         reinterpret_cast<size_t>(memory_.data());
    if (bytes > memory_.size() || start > memory_.size() - bytes) return nullptr;
    used_ = start + bytes;
    return memory_.data() + start;
  }
  void* reserve(size_t, size_t) override { return nullptr; }
  bool commit(void*, size_t) override { return false; }
  void advise_huge(void*, size_t, bool) override {}
  bool discard(void*, size_t) override { return false; }
  bool unmap(void*, size_t) override { return false; }
  void* remap(void*, size_t, size_t) override { return nullptr; }
  Nanos now() override { return {}; }
  Nanos now_coarse() override { return {}; }

 private:
  std::vector<char> memory_ = std::vector<char>(size_t{8} << 20);
  size_t used_ = 0;
};

void run(const char* data, size_t size, FuzzPages& pages) {
  MetadataArena arena(pages);
  char message[512];
  ErrorText error(message, sizeof(message));
  Model model;
  const bool good = read_model(data, size, arena, &model, error);
  if (good == error.failed() || good != (message[0] == '\0')) abort();
  Lstm lstm;
  if (!good || !lstm.init(model.config, model.weights, arena)) return;
  const uint32_t ids[] = {0, model.config.vocabulary - 1};
  float probability[kLifetimeClasses];
  lstm.run(ids, 2, probability);
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages pages;
  pages.reset();
  llamalloc::run(reinterpret_cast<const char*>(data), size, pages);
  return 0;
}
