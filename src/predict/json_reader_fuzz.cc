// SPDX-License-Identifier: Apache-2.0
// JsonReader: whatever it is asked and whatever the text, it stays inside, the position never goes
// back, and a string that it decodes is 0-terminated UTF-8 of the length it says.
//   first byte: how many bytes of calls follow; each calls one function; then the text
#include "predict/json_reader.h"

#include <cstring>

#include "base/check.h"
#include "base/fuzz_input.h"

namespace llamalloc {
namespace {

// Whether the lead bytes announce exactly the continuations that follow.
bool is_utf8(const unsigned char* text, size_t length) {
  for (size_t i = 0; i < length;) {
    const unsigned char lead = text[i++];
    int more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead >= 0x80 && lead < 0xc2) return false;
    for (; more > 0; --more, ++i)
      if (i == length || text[i] >> 6 != 2) return false;
  }
  return true;
}

bool is_ascii(const uint8_t* text, size_t size) {
  for (size_t i = 0; i < size; ++i)
    if (text[i] >= 0x80) return false;
  return true;
}

void read_string(JsonReader& json, size_t room, bool ascii) {
  char out[64];
  size_t length = 0;
  if (!json.string(out, room, &length)) return;
  CHECK_LT(length, room);
  CHECK_EQ(out[length], 0);
  CHECK(!ascii || is_utf8(reinterpret_cast<const unsigned char*>(out), length));
}

void run(FuzzInput input) {
  uint8_t calls[256];
  const size_t count = input.byte();
  for (size_t i = 0; i < count; ++i) calls[i] = input.byte();
  const bool ascii = is_ascii(input.rest(), input.left());
  JsonReader json(reinterpret_cast<const char*>(input.rest()), input.left());
  size_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t number;
    char text[32];
    const uint8_t call = calls[i];
    if (call < 128) json.consume(static_cast<char>(call));
    if (call >= 128 && call < 192) read_string(json, call - 128u, ascii);
    if (call >= 192 && call < 208) json.string(nullptr, 0);
    if (call >= 208 && call < 224) json.unsigned_integer(&number);
    if (call >= 224 && call < 240 && json.number(text, call - 224u))
      CHECK_LT(strlen(text), size_t{call - 224u});
    if (call >= 240) json.at_end();
    CHECK_LE(before, json.position());
    CHECK_LE(json.position(), input.left());
    before = json.position();
  }
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llamalloc::run({data, size});
  return 0;
}
