// SPDX-License-Identifier: Apache-2.0
#include "os/path.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/begins.h"
#include "base/errno_keeper.h"
#include "base/path_pattern.h"

namespace llamalloc {

bool is_folder(const char* path) {
  const ErrnoKeeper keep;
  struct stat found;
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

bool is_same_file(const char* path, const char* other) {
  const ErrnoKeeper keep;
  struct stat its, others;
  return stat(path, &its) == 0 && stat(other, &others) == 0 && its.st_dev == others.st_dev &&
         its.st_ino == others.st_ino;
}

void folder_of(const char* path, char* folder) {
  const char* slash = strrchr(path, '/');
  const size_t length = slash == nullptr || slash == path ? 1 : static_cast<size_t>(slash - path);
  if (slash == nullptr) path = ".";
  memcpy(folder, path, length);
  folder[length] = 0;
}

bool is_of_stranger(const char* path) {
  const ErrnoKeeper keep;
  struct stat found;
  return lstat(path, &found) == 0 && found.st_uid != 0 && found.st_uid != geteuid();
}

// Of the folder that holds the path. False: it cannot be asked.
static bool stat_folder_of(const char* path, struct stat* out) {
  char folder[4096];
  if (strlen(path) >= sizeof(folder)) return false;
  folder_of(path, folder);
  return stat(folder, out) == 0;
}

bool may_be_planted(const char* path) {
  const ErrnoKeeper keep;
  struct stat found;
  return lstat(path, &found) == 0 && may_be_planted(path, found.st_uid);
}

bool may_be_planted(const char* path, unsigned owner) {
  const ErrnoKeeper keep;
  struct stat folder;
  if (owner == 0 || owner == geteuid()) return false;
  return !stat_folder_of(path, &folder) || (folder.st_mode & S_IWOTH) != 0;
}

bool owner_of_place(const char* path, unsigned* user, unsigned* group) {
  const ErrnoKeeper keep;
  struct stat folder, file;
  if (geteuid() != 0 || !stat_folder_of(path, &folder)) return false;
  if ((folder.st_mode & S_IWOTH) != 0) return false;
  const bool of_file = lstat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid != 0;
  const struct stat& whose = of_file ? file : folder;
  if (whose.st_uid == 0) return false;
  *user = whose.st_uid;
  *group = whose.st_gid;
  return true;
}

bool was_written_within(const char* path, Nanos time) {
  const ErrnoKeeper keep;
  struct stat found;
  struct timespec now;
  if (stat(path, &found) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
  const double age = static_cast<double>(now.tv_sec - found.st_mtim.tv_sec) +
                     static_cast<double>(now.tv_nsec - found.st_mtim.tv_nsec) * 1e-9;
  return age >= 0 && age < static_cast<double>(time.n) * 1e-9;
}

void program_path(char* out, size_t room) {
  static constexpr char kDeleted[] = " (deleted)";
  constexpr size_t kSuffix = sizeof(kDeleted) - 1;
  const ErrnoKeeper keep;
  const ssize_t n = readlink("/proc/thread-self/exe", out, room - 1);
  size_t length = n > 0 ? static_cast<size_t>(n) : 0;
  if (length > kSuffix && memcmp(out + length - kSuffix, kDeleted, kSuffix) == 0) length -= kSuffix;
  out[length] = 0;
}

bool called_path(char* out, size_t room) {
  const ErrnoKeeper keep;
  const auto* called = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  // A program that executes itself again has such a name, which means another file to others.
  const bool is_name = called != nullptr && !begins(called, "/proc/") && !begins(called, "/dev/");
  if (!is_name || !is_same_file(called, "/proc/thread-self/exe")) return false;
  char folder[4096] = "";
  const ssize_t n =
      called[0] == '/' ? 0 : readlink("/proc/thread-self/cwd", folder, sizeof(folder) - 2);
  if (n < 0) return false;
  if (n > 0) folder[n] = '/';
  if (strncmp(called, "./", 2) == 0) called += 2;
  snprintf(out, room, "%s%s", folder, called);
  return true;
}

void program_name(char* out, size_t room) {
  char path[4096];
  program_path(path, sizeof(path));
  const char* slash = strrchr(path, '/');
  snprintf(out, room, "%s", slash == nullptr ? path : slash + 1);
}

int64_t program_start() {
  static constinit int64_t start = 0;
  timespec now{};
  if (start == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0) start = now.tv_sec;
  return start;
}

void anchor_path(char* path, size_t room) {
  static constinit char start[4096] = "";
  const ErrnoKeeper keep;
  // The system call, as getcwd may allocate.
  if (start[0] == 0 && syscall(SYS_getcwd, start, sizeof(start)) <= 0) start[0] = 0;
  const size_t folder = strlen(start), length = strlen(path);
  if (path[0] == '/' || path[0] == 0 || start[0] != '/' || folder + length + 2 > room) return;
  memmove(path + folder + 1, path, length + 1);
  memcpy(path, start, folder);
  path[folder] = '/';
}

bool path_of_option(const char* pattern, char* out, size_t room) {
  char program[256] = "";
  if (strchr(pattern, '%') != nullptr) program_name(program, sizeof(program));
  return fill_path(pattern, {getpid(), program, program_start()}, out, room);
}

}  // namespace llamalloc
