// SPDX-License-Identifier: Apache-2.0
// The control socket of contracts/control_protocol.md, and the HTTP pages of docs/http.md. A thread
// of its own, "llamalloc-ctl", serves both (telemetry/client_server.h); it exists only while a
// socket is open. It holds none of our locks while it reads or writes a socket, and the worker's
// lock only while it writes a profile, reads files of the system or breaks some pages.
#pragma once

namespace llamalloc {

// The texts of the options `control` and `http`; "" for none. Prints a line to stderr for what
// cannot be opened: one for a family of processes, by the first of them.
void open_sockets(const char* control, const char* http);
// Where each is served, HTTP with the port that it got; "" if it is not.
extern char control_address[128];
extern char http_address[128];
bool control_is_open();
// Samples are taken only for whoever looks through the sockets: a child without them takes none.
extern bool samples_for_lookers;
void remove_control_at_exit();

// Between these calls no descriptor is opened or closed.
void control_before_fork();
void control_after_fork_in_parent();
// The child has neither the sockets nor the thread. It gets sockets of its own where the path tells
// processes apart (%p): its worker opens them, under background.work_lock.
void control_after_fork_in_child();
bool sockets_are_due();
void open_due_sockets();
void give_up_due_sockets();  // the worker cannot be started: nobody will look at the samples

}  // namespace llamalloc
