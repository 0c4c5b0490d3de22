// SPDX-License-Identifier: Apache-2.0
// Whatever comes as the head of a request: the parser stays within it, and what it accepts is what
// a naive reading finds.
#include <cstring>
#include <string>

#include "base/check.h"
#include "telemetry/http.h"

using namespace llamalloc;

namespace {

bool is_whole_naively(const std::string& text) {
  return text.find("\n\n") != std::string::npos || text.find("\n\r\n") != std::string::npos;
}

bool has_parameter(const std::string& query, const std::string& name) {
  return ("&" + query).find("&" + name + "=") != std::string::npos;
}

void check_accepted(const std::string& original, const HttpRequest& request) {
  CHECK(request.path[0] == '/');
  CHECK(strpbrk(request.path, " ?\n") == nullptr && strpbrk(request.query, " \n") == nullptr);
  const std::string method = request.wants_body ? "GET " : "HEAD ";
  CHECK(original.starts_with(method + request.path));
  uint64_t number;
  bool absent;
  for (const char* name : {"seconds", "page"})
    if (http_number(request.query, name, 3600, &number, &absent)) {
      CHECK(number <= 3600);
      CHECK(absent == !has_parameter(request.query, name));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string original(reinterpret_cast<const char*>(data), size);
  CHECK(http_head_is_whole(original.data(), size) == is_whole_naively(original));
  for (const bool local : {false, true}) {
    std::string text = original;
    HttpRequest request;
    if (parse_http(text.data(), local, &request) == HttpStatus::ok)
      check_accepted(original, request);
  }
  return 0;
}
