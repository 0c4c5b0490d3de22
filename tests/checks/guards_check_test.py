# SPDX-License-Identifier: Apache-2.0
"""scripts/check_guards.py: quiet where the lock is held, loud where it is not."""

from tree import ROOT, run_check, write

ANNOTATIONS = "src/base/thread_annotations.h"
LOCK = """#include "base/thread_annotations.h"
enum class LockRank { pool };
class CAPABILITY("lock") Lock {
 public:
  explicit Lock(LockRank) {}
  void lock() ACQUIRE() {}
  void unlock() RELEASE() {}
};
"""
POOL = """#include "os/lock.h"
class Pool {
 public:
  int take();
 private:
  Lock lock_{LockRank::pool};
  int pages_ GUARDED_BY(lock_) = 0;
};
"""
HELD = (
    '#include "pages/pool.h"\nint Pool::take() { lock_.lock(); int n = pages_; LATER return n; }\n'
)
GOOD = {
    ANNOTATIONS: (ROOT / ANNOTATIONS).read_text(encoding="utf-8"),
    "src/os/lock.h": LOCK,
    "src/pages/pool.h": POOL,
    "src/pages/pool.cc": HELD.replace("LATER", "lock_.unlock();"),
}


def test_a_field_under_its_lock_passes(tmp_path):
    assert run_check("check_guards.py", write(tmp_path, GOOD)) == (0, "")


def test_a_field_without_its_lock_fails(tmp_path):
    bad = '#include "pages/pool.h"\nint Pool::take() { return pages_; }\n'
    status, errors = run_check(
        "check_guards.py", write(tmp_path, {**GOOD, "src/pages/pool.cc": bad})
    )
    assert status == 1
    assert "reading variable 'pages_' requires holding" in errors


def test_a_lock_that_is_kept_fails(tmp_path):
    bad = HELD.replace("LATER", "")
    status, errors = run_check(
        "check_guards.py", write(tmp_path, {**GOOD, "src/pages/pool.cc": bad})
    )
    assert status == 1
    assert "still held at the end of function" in errors


def test_a_lock_that_guards_no_field_fails(tmp_path):
    bad = POOL.replace("GUARDED_BY(lock_)", "").replace("pages_ ", "pages_")
    status, errors = run_check(
        "check_guards.py", write(tmp_path, {**GOOD, "src/pages/pool.h": bad})
    )
    assert status == 1
    assert "src/pages/pool.h: has a lock" in errors


def test_a_lock_under_which_fields_are_only_written_passes(tmp_path):
    good = POOL.replace("GUARDED_BY", "WRITTEN_UNDER")
    free = '#include "pages/pool.h"\nint Pool::take() { return pages_; }\n'
    tree = write(tmp_path, {**GOOD, "src/pages/pool.h": good, "src/pages/pool.cc": free})
    assert run_check("check_guards.py", tree) == (0, "")


def test_rooms_above_the_heap_are_looked_at(tmp_path):
    bad = '#include "pages/pool.h"\nint Pool::take() { return pages_; }\n'
    for room in ("profile", "engine", "runtime", "recorder", "telemetry"):
        tree = write(tmp_path / room, {**GOOD, f"src/{room}/taker.cc": bad})
        status, errors = run_check("check_guards.py", tree)
        assert (status, "reading variable 'pages_'" in errors) == (1, True), room
