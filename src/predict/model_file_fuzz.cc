// SPDX-License-Identifier: Apache-2.0
// libFuzzer over read_model: whatever the bytes, it refuses with a message or gives a model that
// can be run.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/lifetime_class.h"
#include "os/fake/fuzz_pages.h"
#include "predict/model_file.h"

namespace llamalloc {
namespace {

void run(const char* data, size_t size, FuzzPages& pages) {
  MetadataArena arena(pages);
  char message[512];
  ErrorText error(message, sizeof(message));
  Model model;
  const bool good = read_model(data, size, arena, &model, error);
  if (good == error.failed() || good != (message[0] == '\0')) abort();
  BagOfFrames network;
  if (!good || !network.init(model.config, model.weights, arena)) return;
  uint32_t ids[kMaxFrameTokens] = {0, model.config.vocabulary - 1};
  for (int i = 2; i < kMaxFrameTokens; ++i) ids[i] = i % 3 ? kSeparatorId : ids[1];
  float probability[kLifetimeClasses];
  for (const uint32_t count : {0, 2, kMaxFrameTokens})
    network.run(ids, count, count % kSizeRows, probability);
  const ModelEvidence& known = model.evidence;
  const char* const frames[] = {"zmalloc", "?a+0x1", "main"};
  const uint64_t codes[] = {1, 2, 3};
  for (size_t bytes : {16, 64, 4096}) {
    const auto exact = known.find_exact(codes, 3, bytes);
    NamesAsText stack(frames, 3);
    const auto named = known.find_named(stack, bytes);
    if (exact.lifetime > LifetimeClass::mixed || named.lifetime > LifetimeClass::mixed) abort();
    known.asks_network(named);
  }
  known.origin("main", 1);
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages pages;
  pages.reset();
  // Without the name of the checksum, which would refuse nearly everything.
  std::vector<uint64_t> room(size / 8 + 1);
  char* const bytes = reinterpret_cast<char*>(room.data());
  if (size != 0) memcpy(bytes, data, size);
  constexpr char kSum[] = "\"crc32\"";
  if (void* found = memmem(bytes, size, kSum, strlen(kSum))) memcpy(found, "\"crc00\"", 7);
  llamalloc::run(bytes, size, pages);
  return 0;
}
