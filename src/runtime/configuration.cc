// SPDX-License-Identifier: Apache-2.0
#include "runtime/configuration.h"

#include <cstdlib>

#include "base/check.h"
#include "os/file_image.h"
#include "os/path.h"
#include "os/system_facts.h"
#include "runtime/process.h"

// Options that the program was compiled with.
extern "C" __attribute__((weak)) const char* llamalloc_conf;

namespace llamalloc {
namespace {

void warn(const char* message) {
  print_line("%s", message);
}

void ignore(const char*) {}

const char* fault_text(const FileImage& file, FileImage::Fault fault) {
  using Fault = FileImage::Fault;
  if (fault == Fault::not_regular) return "not a regular file";
  if (fault == Fault::too_large) return "larger than 64 KiB";
  return fault == Fault::out_of_memory ? "out of memory" : file.reason();
}

void read_file(const char* path, bool secure) {
  static_assert(Options::kLongestText == 64 << 10, "fault_text says so");
  FileImage file;
  const FileImage::Fault fault = file.open(path, Options::kLongestText);
  if (fault != FileImage::Fault::none)
    return print_line("conf_file %.400s: %s; continuing without it", path, fault_text(file, fault));
  process.options.parse_file(file.data(), file.size(), path, secure, warn);
  file.close();
}

// Null: it is not set. Who starts a program with raised privileges is not to weaken it, as an
// option like on_misuse or hard_limit would; glibc ignores its own settings there, too.
const char* read_environment(bool secure) {
  const char* text = getenv("LLAMALLOC_CONF");
  if (text == nullptr || !secure) return text;
  if (text[0] != 0)
    print_line("LLAMALLOC_CONF: not allowed in a process with raised privileges; ignored");
  return nullptr;
}

}  // namespace

void read_options() {
  const bool secure = has_raised_privileges();
  Options& options = process.options;
  if (&llamalloc_conf != nullptr && llamalloc_conf != nullptr)
    options.parse(llamalloc_conf, secure, warn, "llamalloc_conf");
  const char* from_environment = read_environment(secure);
  if (from_environment != nullptr) options.parse(from_environment, secure, warn);
  if (options.conf_file.text[0] != 0) {
    static constinit char path[kOptionText + 512] = "";
    if (path_of_option(options.conf_file.text, path, sizeof(path))) read_file(path, secure);
    if (from_environment != nullptr) options.parse(from_environment, secure, ignore);  // it wins
  }
  if (options.confirm_conf)
    options.print(
        [](const char* name, const char* value) { print_line("option %s = %s", name, value); });
}

}  // namespace llamalloc
