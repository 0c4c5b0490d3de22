// SPDX-License-Identifier: Apache-2.0
// Names of functions as tokens, and a text as the vocabulary that looks them up: tokens are pieces
// of their names, every line of the text has its number, everything else is 0.
//   frames, 0-terminated, up to an empty one; then the vocabulary
#include "predict/vocabulary.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "os/fake/fuzz_pages.h"

namespace llamalloc {
namespace {

std::string spelling(const Token& token) {
  std::string text;
  for (uint32_t i = 0; i < token.length; ++i) text += token.byte(i);
  return text;
}

// The text's lines by their spelling; the first of equals counts, as build refuses others.
std::map<std::string, uint32_t> lines_of(const std::string& text) {
  std::map<std::string, uint32_t> lines;
  uint32_t id = 0;
  for (size_t at = 0; at <= text.size(); ++id) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace(text.substr(at, end - at), id);
    at = end + 1;
  }
  return lines;
}

void look_up(const TokenSequence& tokens, const std::string& text, FuzzPages& system) {
  MetadataArena arena(system);
  char message[256];
  ErrorText error(message, sizeof(message));
  Vocabulary vocabulary;
  const bool good = vocabulary.build(text.data(), text.size(), arena, error);
  CHECK(good != error.failed() && good == (message[0] == 0));
  if (!good) return;
  const auto lines = lines_of(text);
  const auto expected = [&](const std::string& line) {
    const auto found = lines.find(line);
    return found == lines.end() ? 0 : found->second;
  };
  for (const Token& token : tokens) CHECK_EQ(vocabulary.id(token), expected(spelling(token)));
  for (const auto& [line, id] : lines) {
    const Token token{line.data(), static_cast<uint32_t>(line.size()), false};
    CHECK_EQ(vocabulary.id(token), expected(spelling(token)));
  }
}

void run(const char* data, size_t size, FuzzPages& system) {
  std::vector<std::string> frames;
  const char* const end = data + size;
  while (data != end) {
    const size_t length = strnlen(data, static_cast<size_t>(end - data));
    const std::string frame(data, length);
    data += length + (data + length != end);
    if (frame.empty()) break;
    frames.push_back(frame);
  }
  std::vector<const char*> names;
  for (const std::string& frame : frames) names.push_back(frame.c_str());
  TokenSequence tokens;
  tokens.assign(names.data(), static_cast<int>(names.size()), size * 37);
  CHECK(tokens.count() >= 1 && tokens.count() <= kMaxTokens);
  look_up(tokens, std::string(data, end), system);
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages system;
  system.reset();
  llamalloc::run(reinterpret_cast<const char*>(data), size, system);
  return 0;
}
