# SPDX-License-Identifier: Apache-2.0
"""What the tests share: profiles of a synthetic server, a real control group."""

import signal

import pytest
from support import profile_writer, synthetic

from llamalloc.running.memory_group import MemoryGroup

# Background jobs and nohup ignore or block signals; what the tests start would inherit that.
for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # those two are Python's
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """`run_of(seed=1, contexts=80)`: path of such a run's profile."""
    folder = tmp_path_factory.mktemp("profiles")

    def write(**how):
        name = "-".join(f"{key}{value}" for key, value in how.items())
        path = folder / f"server{name}.pb.gz"
        return path if path.exists() else profile_writer.write(synthetic.profile(**how), path)

    return write


@pytest.fixture
def group():
    """A memory control group, where the system lets us make one."""
    with MemoryGroup.made("test") as made:
        if made is None:
            pytest.skip("no memory control group can be made here")
        yield made
