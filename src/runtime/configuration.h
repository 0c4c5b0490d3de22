// SPDX-License-Identifier: Apache-2.0
// The options of this process, from three places. Later ones win: a string compiled into the
// program (`llamalloc_conf`), the file that conf_file names, LLAMALLOC_CONF. No file is opened that
// none of the two strings names, and none when the process runs with raised privileges.
#pragma once

namespace llamalloc {

// Faults are lines on stderr; the options that they are about stay as they were.
void read_options();

}  // namespace llamalloc
