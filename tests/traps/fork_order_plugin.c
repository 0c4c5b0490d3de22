/* SPDX-License-Identifier: Apache-2.0 */
/* A library that registers fork handlers in its constructor, as those do that keep state of their
   own over fork. FORK_ORDER in the environment says what they do, by one or more of these words:
     lock        prepare takes a lock; a thread of the program allocates while it holds that
     join        prepare stops and joins a thread that allocates, as OpenBLAS does
     threads     each handler starts threads that allocate, and joins them
     allocate    each handler allocates objects of all sizes
     many        60 registrations, more than the C library has room for without malloc
     dlsym       pthread_atfork itself is looked up by name
   It calls no malloc before, so that nothing of an allocator need be set up. */
#include <dlfcn.h>

#include "trap.h"

enum { kMany = 60, kThreads = 3, kSlow = 200 };
typedef void Handler(void);

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_t helper;
static int helper_runs, quit, calls, locks;

static void lock(void) {
  ++calls;
  pthread_mutex_lock(&held);
}

static void unlock(void) {
  ++calls;
  pthread_mutex_unlock(&held);
}

/* Objects too many and too large for what a thread caches, so that locks are taken. */
static void allocate_slowly(void) {
  unsigned char* p[kSlow];
  for (int i = 0; i < kSlow; ++i) p[i] = filled(1000 + 100 * (size_t)i, (unsigned char)i);
  for (int i = 0; i < kSlow; ++i) check_and_free(p[i], 1000 + 100 * (size_t)i, (unsigned char)i);
}

static void* help(void* unused) {
  pthread_mutex_lock(&guard);
  while (!quit) {
    allocate_slowly();
    pthread_cond_wait(&wake, &guard);
  }
  pthread_mutex_unlock(&guard);
  allocate_slowly(); /* its caches are in use when it ends */
  return unused;
}

static void start_helper(void) {
  ++calls;
  quit = 0;
  helper = start(help, NULL);
  helper_runs = 1;
}

static void join_helper(void) {
  ++calls;
  if (!helper_runs) return;
  pthread_mutex_lock(&guard);
  quit = 1;
  pthread_cond_signal(&wake);
  pthread_mutex_unlock(&guard);
  pthread_join(helper, NULL);
  helper_runs = 0;
}

static void* allocate_in_thread(void* unused) {
  allocate_slowly();
  return unused;
}

static void run_threads(void) {
  ++calls;
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) threads[i] = start(allocate_in_thread, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

static void allocate(void) {
  ++calls;
  allocate_a_little();
  allocate_slowly();
}

static void count(void) {
  ++calls;
}

static int (*registers)(Handler*, Handler*, Handler*) = pthread_atfork;

static void add(Handler* prepare, Handler* parent, Handler* child) {
  if (registers(prepare, parent, child) != 0) die("pthread_atfork");
}

__attribute__((constructor)) static void register_handlers(void) {
  const char* what = getenv("FORK_ORDER");
  if (what == NULL) die("FORK_ORDER is not set");
  void* found = strstr(what, "dlsym") != NULL ? dlsym(RTLD_DEFAULT, "pthread_atfork") : NULL;
  if (found != NULL) registers = (int (*)(Handler*, Handler*, Handler*))(uintptr_t)found;
  locks = strstr(what, "lock") != NULL;
  if (locks) add(lock, unlock, unlock);
  if (strstr(what, "join") != NULL) add(join_helper, start_helper, start_helper);
  if (strstr(what, "threads") != NULL) add(run_threads, run_threads, run_threads);
  if (strstr(what, "allocate") != NULL) add(allocate, allocate, allocate);
  for (int i = 0; i < kMany && strstr(what, "many") != NULL; ++i)
    add(i % 10 == 0 ? allocate : count, count, i % 10 == 5 ? allocate : count);
}

/* What the program calls. */
void fork_order_work(void);
int fork_order_calls(void);

void fork_order_work(void) {
  if (locks) pthread_mutex_lock(&held);
  allocate_slowly();
  if (locks) pthread_mutex_unlock(&held);
}

int fork_order_calls(void) {
  return calls;
}
