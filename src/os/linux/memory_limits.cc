// SPDX-License-Identifier: Apache-2.0
#include "os/memory_limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "os/descriptor.h"
#include "os/linux/read_at.h"

namespace llamalloc {
namespace {

constexpr size_t kPath = 1024;
constexpr size_t kText = 4096;
constexpr size_t kLine = 2048;                // what is longer is no line that we look for
constexpr size_t kNoLimit = size_t{1} << 62;  // version 1 says so, or nearly, where there is none
constexpr int kMostLevels = 64;

struct Path {
  char text[kPath];
  // False: too long.
  bool set(const char* a, const char* b, const char* c = "", const char* d = "") {
    const int n = snprintf(text, sizeof(text), "%s%s%s%s", a, b, c, d);
    return n >= 0 && static_cast<size_t>(n) < sizeof(text);
  }
};

int open_file(const char* path) {
  if (refuses_filtered_call()) return -1;
  return off_standard(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

enum class Read { ok, absent, fault };

// The start of a small file, with a 0 behind it.
Read read_text(const char* path, char (&out)[kText]) {
  const int fd = open_file(path);
  if (fd < 0)
    return errno == ENOENT || errno == ENOTDIR || errno == ENODEV ? Read::absent : Read::fault;
  const ssize_t n = read_at(fd, out, kText - 1, 0);
  const int error = errno;
  close_read(fd);
  out[n < 0 ? 0 : n] = 0;
  if (n < 0) return error == ENODEV || error == EOPNOTSUPP ? Read::absent : Read::fault;
  return Read::ok;
}

// f(line) for each line, without its newline, until it returns true.
template <typename F>
bool find_line(const char* path, F&& f) {
  const int fd = open_file(path);
  if (fd < 0) return false;
  char buffer[kLine + 1];
  size_t have = 0, begun = 0;
  bool found = false, skips = false;
  for (ssize_t n; !found && (n = read_at(fd, buffer + have, kLine - have, begun)) > 0;) {
    have += static_cast<size_t>(n);
    begun += static_cast<size_t>(n);
    char* line = buffer;
    while (char* end =
               static_cast<char*>(memchr(line, '\n', have - static_cast<size_t>(line - buffer)))) {
      *end = 0;
      if (!skips && !found) found = f(line);
      skips = false;
      line = end + 1;
    }
    have -= static_cast<size_t>(line - buffer);
    memmove(buffer, line, have);
    if (have == kLine) have = 0, skips = true;
  }
  close_read(fd);
  return found;
}

// Whether the word is in a list with commas.
bool has_word(const char* list, const char* end, const char* word) {
  const size_t length = strlen(word);
  for (const char* p = list; p < end;) {
    const char* comma = static_cast<const char*>(memchr(p, ',', static_cast<size_t>(end - p)));
    const char* stop = comma ? comma : end;
    if (static_cast<size_t>(stop - p) == length && memcmp(p, word, length) == 0) return true;
    p = stop + 1;
  }
  return false;
}

// 12:memory:/a/b, or 0::/a/b
bool find_group(const char* root, bool second, Path* out) {
  Path file;
  if (!file.set(root, "/proc/thread-self/cgroup")) return false;
  return find_line(file.text, [&](const char* line) {
    const char* names = strchr(line, ':');
    const char* path = names ? strchr(names + 1, ':') : nullptr;
    if (path == nullptr) return false;
    const bool is = second ? strncmp(line, "0::", 3) == 0 : has_word(names + 1, path, "memory");
    return is && out->set(path + 1, "");
  });
}

// The n-th field, from 0, of words between spaces; null: there are fewer.
const char* field(const char* line, int n) {
  for (; n > 0 && line != nullptr; --n) line = strchr(line, ' '), line = line ? line + 1 : nullptr;
  return line;
}

size_t word_length(const char* word) {
  const char* end = strchr(word, ' ');
  return end ? static_cast<size_t>(end - word) : strlen(word);
}

// The part of the group's path below what is mounted; null: it is not below.
const char* below(const char* group, const char* mounted) {
  const size_t length = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
  if (strncmp(group, mounted, length) != 0) return nullptr;
  return group[length] == 0 || group[length] == '/' ? group + length : nullptr;
}

// Spaces and the like stand there as \040, in octal digits. False: too long.
bool copy_word(const char* word, Path* out) {
  const auto digit = [](char c) { return c >= '0' && c <= '7'; };
  const char* const end = word + word_length(word);
  size_t used = 0;
  while (word < end && used < kPath - 1) {
    char c = *word++;
    if (c == '\\' && end - word >= 3 && digit(word[0]) && digit(word[1]) && digit(word[2])) {
      c = static_cast<char>((word[0] - '0') * 64 + (word[1] - '0') * 8 + (word[2] - '0'));
      word += 3;
    }
    out->text[used++] = c;
  }
  out->text[used] = 0;
  return word == end;
}

// 30 23 0:26 ROOT MOUNT options [tags] - TYPE source options
// Of several mounts, the first one that has the group; a container may see that of its host, too.
bool find_mount(const char* root, bool second, const char* group, Path* mounted, Path* mount) {
  Path file;
  bool found = false;
  if (!file.set(root, "/proc/thread-self/mountinfo")) return false;
  find_line(file.text, [&](const char* line) {
    const char* from = field(line, 3);
    const char* at = field(line, 4);
    const char* type = strstr(line, " - ");
    if (at == nullptr || type == nullptr) return false;
    type += 3;
    const size_t length = word_length(type);
    const char* options = field(type, 2);
    if (second ? !(length == 7 && memcmp(type, "cgroup2", 7) == 0)
               : !(length == 6 && memcmp(type, "cgroup", 6) == 0 && options != nullptr &&
                   has_word(options, options + strlen(options), "memory")))
      return false;
    Path part, place;
    if (!copy_word(from, &part) || !copy_word(at, &place)) return false;
    const bool has_group = below(group, part.text) != nullptr;
    if (found && !has_group) return false;
    *mounted = part;
    *mount = place;
    found = true;
    return has_group;
  });
  return found;
}

// False: not a number, and not `max`. *out: SIZE_MAX for no limit.
bool parse_bytes(const char* text, size_t* out) {
  *out = SIZE_MAX;
  if (strncmp(text, "max", 3) == 0) return text[3] == 0 || text[3] == '\n';
  size_t value = 0, digits = 0;
  for (; text[digits] >= '0' && text[digits] <= '9'; ++digits)
    if (__builtin_mul_overflow(value, size_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<size_t>(text[digits] - '0'), &value))
      return false;
  if (digits == 0 || (text[digits] != 0 && text[digits] != '\n')) return false;
  if (value < kNoLimit) *out = value;
  return true;
}

struct Names {
  const char* limits[2];
  const char* usage;
  const char* cold_files;
  const char* hot_files;
  const char* slab;   // names and attributes of files that can be dropped; null: version 1
  const char* cache;  // page cache, with what is shared
  const char* shared;
};
constexpr Names kSecond = {
    {"/memory.max", "/memory.high"}, "/memory.current", "\ninactive_file ", "\nactive_file ",
    "\nslab_reclaimable ",           "\nfile ",         "\nshmem "};
constexpr Names kFirst = {{"/memory.limit_in_bytes", nullptr},
                          "/memory.usage_in_bytes",
                          "\ntotal_inactive_file ",
                          "\ntotal_active_file ",
                          nullptr,
                          "\ntotal_cache ",
                          "\ntotal_shmem "};

// SIZE_MAX: no such file, or no limit.
size_t read_bytes(const char* folder, const char* name, MemoryLimits* out) {
  Path file;
  char text[kText];
  size_t value = SIZE_MAX;
  if (!file.set(folder, name)) return ++out->unreadable, SIZE_MAX;
  const Read read = read_text(file.text, text);
  if (read == Read::fault || (read == Read::ok && !parse_bytes(text, &value)))
    return ++out->unreadable, SIZE_MAX;
  return value;
}

// memory.stat; false: it cannot be read.
bool read_rows(const char* folder, char (&text)[kText]) {
  Path file;
  return file.set(folder, "/memory.stat") && read_text(file.text, text) == Read::ok;
}

// 0: there is no such row.
size_t row_in(const char* text, const char* row) {
  const char* found = strstr(text, row);
  if (found == nullptr) return 0;
  size_t value = 0;
  for (const char* p = found + strlen(row); *p >= '0' && *p <= '9'; ++p)
    value = value * 10 + static_cast<size_t>(*p - '0');
  return value;
}

// What the kernel drops before it ends a process. It would drop all of these files. But active ones
// include the code that runs and what is read again at once, so half of them counts as used: else
// the heap would fill the limit while each request waits for the disk. (MemAvailable of the system
// leaves out up to half of the files, too.) Dropping that does hurt shows as memory pressure. No
// row here has shared memory, which could only be swapped.
size_t droppable(const char* folder, const Names& names) {
  char text[kText];
  if (!read_rows(folder, text)) return 0;
  const size_t slab = names.slab ? row_in(text, names.slab) : 0;
  return row_in(text, names.cold_files) + row_in(text, names.hot_files) / 2 + slab / 2;
}

void look_at_group(const char* folder, const Names& names, MemoryLimits* out) {
  size_t limit = SIZE_MAX;
  for (const char* name : names.limits) {
    const size_t one = name ? read_bytes(folder, name, out) : SIZE_MAX;
    if (one < limit) limit = one;
  }
  if (limit == SIZE_MAX) return;
  size_t used = read_bytes(folder, names.usage, out);
  if (used == SIZE_MAX) return;
  if (used > limit - limit / 4) {
    const size_t files = droppable(folder, names);
    used = used > files ? used - files : 0;
  }
  const size_t room = limit > used ? limit - used : 0;
  if (room < out->room) out->room = room, out->limit = limit;
  const auto share = [](size_t part, size_t of) {
    return static_cast<double>(part) / static_cast<double>(of ? of : 1);
  };
  const bool first = out->tightest == SIZE_MAX;
  if (first || share(room, limit) < share(out->tightest_room, out->tightest))
    out->tightest_room = room, out->tightest = limit;
}

// The folder of the process's group, and of what is mounted there. False: there is no such
// hierarchy.
bool find_own(const char* root, bool second, Path* own, Path* mount) {
  Path group, mounted;
  if (!find_group(root, second, &group) || !find_mount(root, second, group.text, &mounted, mount))
    return false;
  const char* rest = below(group.text, mounted.text);
  return own->set(root, mount->text, rest && strcmp(rest, "/") != 0 ? rest : "");
}

// The group and those above it, as far as they can be seen.
bool look_at_groups(const char* root, bool second, MemoryLimits* out, Path* own) {
  Path mount;
  if (!find_own(root, second, own, &mount)) return false;
  const size_t shortest = strlen(root) + strlen(mount.text);
  Path folder = *own;
  for (int level = 0; level < kMostLevels; ++level) {
    look_at_group(folder.text, second ? kSecond : kFirst, out);
    char* slash = strrchr(folder.text, '/');
    if (slash == nullptr || static_cast<size_t>(slash - folder.text) < shortest) break;
    *slash = 0;
  }
  return true;
}

// some avg10=12.34 avg60=...
bool read_pressure(const char* folder, const char* name, MemoryLimits* out) {
  Path file;
  char text[kText];
  if (!file.set(folder, name) || read_text(file.text, text) != Read::ok) return false;
  constexpr char kStart[] = "some avg10=";
  if (strncmp(text, kStart, sizeof(kStart) - 1) != 0) return false;
  uint32_t hundredths = 0;
  for (const char* p = text + sizeof(kStart) - 1; (*p >= '0' && *p <= '9') || *p == '.'; ++p)
    if (*p != '.') hundredths = hundredths * 10 + static_cast<uint32_t>(*p - '0');
  out->pressure = hundredths;
  return true;
}

// Whether the memory group of version 1 is that of the whole system.
bool is_top(const char* root) {
  Path group;
  return !find_group(root, false, &group) || strcmp(group.text, "/") == 0;
}

}  // namespace

MemoryLimits read_memory_limits(const char* root) {
  const ErrnoKeeper keep;
  MemoryLimits out;
  Path own;
  look_at_groups(root, false, &out, &own);
  const bool second = look_at_groups(root, true, &out, &own);
  if (!second || !read_pressure(own.text, "/memory.pressure", &out))
    read_pressure(root, "/proc/pressure/memory", &out);
  return out;
}

size_t read_memory_charge(const char* root) {
  const ErrnoKeeper keep;
  for (const bool second : {false, true}) {
    Path own, mount;
    MemoryLimits ignored;
    char rows[kText];
    const Names& names = second ? kSecond : kFirst;
    if (!find_own(root, second, &own, &mount)) continue;
    // In version 1 the top has files, too: those of the whole system.
    if (!second && is_top(root)) continue;
    const size_t usage = read_bytes(own.text, names.usage, &ignored);
    if (usage == SIZE_MAX || !read_rows(own.text, rows)) continue;
    return less(usage, less(row_in(rows, names.cache), row_in(rows, names.shared)));
  }
  return SIZE_MAX;
}

}  // namespace llamalloc
