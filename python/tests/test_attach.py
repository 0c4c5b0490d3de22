# SPDX-License-Identifier: Apache-2.0
"""What a process wrote for `llamalloc record --attach` is taken over only if it is a file."""

import os
from pathlib import Path

import pytest

from llamalloc.running import attach


def test_a_file_is_moved(tmp_path: Path):
    (tmp_path / "theirs").write_bytes(b"profile")
    attach._take(tmp_path / "theirs", tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == b"profile" and not (tmp_path / "theirs").exists()


def test_a_pipe_or_a_link_is_refused(tmp_path: Path):
    """A pipe that nobody writes would be waited for forever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(attach.AttachError, match="not a regular file"):
        attach._take(tmp_path / "pipe", tmp_path / "ours")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        attach._take(tmp_path / "link", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
