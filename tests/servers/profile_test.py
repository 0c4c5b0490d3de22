# SPDX-License-Identifier: Apache-2.0
"""Profiles of programs that move their samples, and that load and unload their code."""

from preload import compile_program, run

from llamalloc import profile


def test_samples_that_the_system_moved_die_where_they_are_freed(tmp_path):
    path = tmp_path / "p.pb.gz"
    conf = f"profile:{path},sample_interval:1KiB"
    assert int(run([compile_program("moved_samples")], seconds=60, conf=conf).stdout) > 100
    contexts = [c for c in profile.read(path).contexts if c.bytes >= 2 << 20]
    assert sum(c.sampled for c in contexts) >= 300
    assert [c for c in contexts if c.censored_objects != 0] == []
