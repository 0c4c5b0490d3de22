// SPDX-License-Identifier: Apache-2.0
// What a path leads to, the path of the program that runs, and the paths of its options.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

bool is_folder(const char* path);
// Whether both lead to one file, which is there.
bool is_same_file(const char* path, const char* other);
// The folder that holds the path; as much room as the path takes.
void folder_of(const char* path, char* folder);
// Whether the file, or link, is there and neither ours nor root's.
bool is_of_stranger(const char* path);
// Whether somebody else may have put it there for us: it is a stranger's, and all may write to its
// folder.
bool may_be_planted(const char* path);
// The same of what was opened there, which belongs to this user.
bool may_be_planted(const char* path, unsigned owner);
// Whose a new file at the path is to be, where that is not who makes it: as root, of whom the file
// that is there belongs to, or else its folder. Else the processes that root starts for that user
// could neither read nor replace it. Not in a folder that all may write to: there anybody's file
// may be in the place.
bool owner_of_place(const char* path, unsigned* user, unsigned* group);
// Whether the file is there and was written less than so long ago, by the wall clock.
bool was_written_within(const char* path, Nanos time);
// The path of the program's file, 0-terminated, cut to room bytes; a file that was replaced or
// removed meanwhile keeps its name. Empty where the system does not say.
void program_path(char* out, size_t room);
// The same by the name under which it was started: Debian's redis-server is a link to
// redis-check-rdb. False, and out is as it was: that name does not lead to the file any more, or to
// others.
bool called_path(char* out, size_t room);
// The last part of program_path().
void program_name(char* out, size_t room);

// The wall clock's time, in seconds since 1970, when this was first called in the program: at its
// start. Forked children keep it.
int64_t program_start();
// Puts the current folder of the program's start before a relative path, so that a program that
// changes its folder, as daemons do, does not change the file. The first call has to be at the
// start. A path that would be too long stays as it is.
void anchor_path(char* path, size_t room);
// A path option of this process (base/path_pattern.h). False: it is too long; `out` is then empty.
bool path_of_option(const char* pattern, char* out, size_t room);

}  // namespace llamalloc
