// SPDX-License-Identifier: Apache-2.0
// What clang's thread-safety analysis reads (-Wthread-safety; scripts/check_guards.py): which lock
// guards a field, which locks a function needs, takes or gives up. Nothing to other compilers.
#pragma once

#if defined(__clang__)
#define LLAMALLOC_ATTRIBUTE(x) __attribute__((x))
#else
#define LLAMALLOC_ATTRIBUTE(x)
#endif

// Of a class: a lock, or a guard that holds one for as long as it lives.
#define CAPABILITY(name) LLAMALLOC_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY LLAMALLOC_ATTRIBUTE(scoped_lockable)
// Of a field: read and written under the lock only.
#define GUARDED_BY(lock) LLAMALLOC_ATTRIBUTE(guarded_by(lock))
// Of a field: written under the lock, and read without; how a reader knows that what it reads was
// written is said beside it. For people: no compiler checks it.
#define WRITTEN_UNDER(lock)
// Of a function: the caller holds the locks; it takes them; it gives them up; it returns one.
#define REQUIRES(...) LLAMALLOC_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) LLAMALLOC_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) LLAMALLOC_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) LLAMALLOC_ATTRIBUTE(release_capability(__VA_ARGS__))
// Of a function that checks that the caller holds it: from there on the analysis believes it.
#define ASSERT_CAPABILITY(lock) LLAMALLOC_ATTRIBUTE(assert_capability(lock))
#define RETURN_CAPABILITY(lock) LLAMALLOC_ATTRIBUTE(lock_returned(lock))
// Of a function that locks what the analysis cannot name, such as all locks of an array.
#define NO_THREAD_SAFETY_ANALYSIS LLAMALLOC_ATTRIBUTE(no_thread_safety_analysis)
