// SPDX-License-Identifier: Apache-2.0
// The options of this process, from three places. Later ones win: a string compiled into the
// program (`llamalloc_conf`), the file that conf_file names, LLAMALLOC_CONF. A file is opened only
// if one of the two strings names it. A process with raised privileges opens no file and ignores
// LLAMALLOC_CONF.
#pragma once

namespace llamalloc {

// An invalid option gives a line on stderr and keeps its previous value.
void read_options();

}  // namespace llamalloc
