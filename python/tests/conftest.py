# SPDX-License-Identifier: Apache-2.0
"""What the tests share: profiles of a synthetic server."""

import signal

import pytest
from support import profile_writer, synthetic

# Build machines run us under nohup; programs that the tests start would inherit the deaf ear.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """`run_of(seed=1, contexts=80)`: path of such a run's profile."""
    folder = tmp_path_factory.mktemp("profiles")

    def write(**how):
        name = "-".join(f"{key}{value}" for key, value in how.items())
        path = folder / f"server{name}.pb.gz"
        return path if path.exists() else profile_writer.write(synthetic.profile(**how), path)

    return write
