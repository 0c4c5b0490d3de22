// SPDX-License-Identifier: Apache-2.0
// For tests: shared objects compiled by the test, in a folder that goes with it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

namespace llamalloc {

class PluginFolder {
 public:
  PluginFolder() {
    char name[] = "/tmp/llamalloc-plugin-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  PluginFolder(const PluginFolder&) = delete;
  ~PluginFolder() { EXPECT_EQ(system((std::string("rm -r ") += folder_).c_str()), 0); }

  // The path of name.so, made of C code.
  std::string compile(const std::string& name, const std::string& code,
                      const std::string& flags = "-Wl,--build-id=sha1") const {
    const std::string source = path(name, ".c"), object = path(name, ".so");
    std::ofstream(source) << code;
    std::string command("cc -O1 -fPIC -shared ");
    command += flags + " -o " + object + " " + source;
    EXPECT_EQ(system(command.c_str()), 0) << command;
    return object;
  }

 private:
  std::string path(const std::string& name, const char* ending) const {
    std::string text(folder_);
    return ((text += "/") += name) += ending;
  }
  std::string folder_;
};

// One plugin, loaded as long as this object lives.
class LoadedPlugin {
 public:
  explicit LoadedPlugin(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW)) {
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  LoadedPlugin(const LoadedPlugin&) = delete;
  ~LoadedPlugin() { dlclose(handle_); }

  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(handle_, name));
  }
  uintptr_t address(const char* name) const {
    return reinterpret_cast<uintptr_t>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};

}  // namespace llamalloc
