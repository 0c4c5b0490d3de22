// SPDX-License-Identifier: Apache-2.0
// The control socket of contracts/control_protocol.md, served by the worker between its other
// duties: one line in, one reply out. Owner-only; peers of another user are refused.
#pragma once

namespace llamalloc {

// A line on stderr if it cannot be opened.
void open_control(const char* path);
bool control_is_open();
// Takes the connections that wait, answers each; never waits longer than a second for a client.
void answer_control();
void remove_control_at_exit();
void control_after_fork_in_child();

}  // namespace llamalloc
