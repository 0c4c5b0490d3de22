// SPDX-License-Identifier: Apache-2.0
// The control socket of contracts/control_protocol.md. A thread of its own, "llamalloc-ctl", serves
// it (telemetry/client_server.h); it exists only while a socket is open. It holds none of our locks
// while it reads or writes the socket, and the worker's lock only while it writes a profile.
#pragma once

namespace llamalloc {

// Prints a line to stderr if it cannot be opened.
void open_control(const char* path);
bool control_is_open();
void remove_control_at_exit();

// Between these calls no descriptor is opened or closed.
void control_before_fork();
void control_after_fork_in_parent();
// The child has neither the socket nor the thread.
void control_after_fork_in_child();

}  // namespace llamalloc
