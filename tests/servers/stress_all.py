# SPDX-License-Identifier: Apache-2.0
"""Stress in every configuration, each for its share of the time (`make stress`).

Usage: stress_all.py MINUTES [NAME...]

CONFIGURATIONS is the list; each runs under the release library and under the debug one, whose
checks are all on. Prints a line for each and a summary; exit 1 if any failed. A run fails as those
of preload.py do: a changed byte, a signal, a hang, a line of the library's on stderr.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from preload import ROOT, compile_program, run

sys.path.append(str(ROOT / "scripts"))
from policy_table import forge

MODEL = f"segregate:always,model:{ROOT}/contracts/golden/model_v3.safetensors"
PROFILE = "profile:{folder}/p.pb.gz,sample_interval:256"
LEARN = "learn:on,segregate:always,sample_interval:256"
STRESS = ("stress", "{seconds}", "{seed}", "4")
MANY = ("stress", "{seconds}", "{seed}", "48")
FORKS = ("fork_storm", "40", "{seed}")
CHURN = ("thread_churn", "1000", "{seed}")
STORM = ("storm", "{seconds}", "{seed}", "6")
# Under a model that brings proof and is wrong the gate is open at the start, and closes in the
# first trough; under learning it opens in the second one.
GATE = ("gate", "{seconds}", "{seed}", "3")
WRONG = "model:{model},sample_interval:64KiB"
ADDRESS_SPACE = 320 << 20  # bytes; what lives at a time is about 100 MiB
LONGEST = 60.0
CLOSES = 12.0  # seconds in which the gate closes, and much is allocated after that
GRACE = 120  # seconds that a run may take beyond what it was told


class Configuration(NamedTuple):
    """A program of tests/servers with its arguments, LLAMALLOC_CONF, and bytes of address space."""

    program: tuple[str, ...]
    conf: str = ""
    address_space: int = 0
    longest: float = LONGEST  # seconds of one process


CONFIGURATIONS = {
    "default": Configuration(STRESS),
    "sampling densely": Configuration(STRESS, PROFILE),
    "hardened": Configuration(STRESS, "hardened:on"),
    "hardened, sampling densely": Configuration(STRESS, f"hardened:on,{PROFILE}"),
    "model": Configuration(STRESS, f"{MODEL},predict_recheck:4KiB"),
    "model, groups apart": Configuration(STRESS, f"{MODEL},share_pages_below:0"),
    "model, sampling densely": Configuration(STRESS, f"{MODEL},{PROFILE}"),
    "learning": Configuration(STRESS, LEARN),
    "gate closes": Configuration(GATE, WRONG, longest=CLOSES),
    "gate closes, learning": Configuration(
        GATE, f"learn:{{folder}}/s.learned,{WRONG}", longest=CLOSES
    ),
    "gate opens": Configuration(GATE, "learn:on,sample_interval:64KiB"),
    "release at once": Configuration(STRESS, "release_delay:0s"),
    "retain": Configuration(STRESS, "retain:64MiB"),
    "small pages": Configuration(STRESS, "hugepages:off"),
    "no worker": Configuration(STRESS, "worker:off"),
    "little address space": Configuration(STRESS, address_space=ADDRESS_SPACE),
    "many threads": Configuration(MANY),
    "many threads, model": Configuration(MANY, MODEL),
    "forks": Configuration(FORKS),
    "forks, model": Configuration(FORKS, MODEL),
    "forks, sampling densely": Configuration(FORKS, PROFILE),
    "storm": Configuration(STORM, "sleeper_delay:1us"),
    "storm, model": Configuration(STORM, f"sleeper_delay:1us,{MODEL}"),
    "storm, sampling densely": Configuration(STORM, f"sleeper_delay:1us,{PROFILE}"),
    "storm, learning": Configuration(STORM, f"sleeper_delay:1us,{LEARN}"),
    "promotions": Configuration(("promotions", "{seconds}", "1500"), f"hugepages:off,{MODEL}"),
    "calloc after reuse": Configuration(("zeroes", "{seconds}", "{seed}"), "release_delay:200ms"),
    "thread churn": Configuration(CHURN),
    "thread churn, hardened": Configuration(CHURN, "hardened:on"),
    "thread churn, release at once": Configuration(CHURN, "release_delay:0s"),
}


def attempt(configuration: Configuration, seconds: float, seed: int) -> str:
    """One process; what went wrong, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "wrong.model"
        forge(model)
        words = {"seconds": f"{seconds:.1f}", "seed": seed, "folder": folder, "model": model}
        name, *arguments = [word.format(**words) for word in configuration.program]
        command = [str(compile_program(name)), *arguments]
        if configuration.address_space:
            command = ["prlimit", f"--as={configuration.address_space}", *command]
        conf = configuration.conf.format(**words)
        try:
            run(command, seconds=seconds + GRACE, conf=conf)
        except AssertionError as error:
            return f"{' '.join(command)}: {str(error).splitlines()[0]}"
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)}: hangs"
    return ""


def stress(name: str, configuration: Configuration, share: float) -> bool:
    """Runs it again and again, with another seed each time, for `share` seconds."""
    end = time.monotonic() + share
    runs, fault = 0, ""
    while not fault and (runs == 0 or time.monotonic() < end - 0.5):
        left = max(end - time.monotonic(), 0.5)
        fault = attempt(configuration, min(left, configuration.longest), 1000 + runs)
        runs += 1
    print(f"{name:40} {runs:5} runs  {'FAILED: ' + fault if fault else 'ok'}", flush=True)
    return not fault


def main(arguments: list[str]) -> int:
    names = arguments[1:] or list(CONFIGURATIONS)
    unknown = [name for name in names if name not in CONFIGURATIONS]
    if not arguments or unknown:
        print(__doc__, f"known: {', '.join(CONFIGURATIONS)}", sep="\n", file=sys.stderr)
        return 2
    libraries = [ROOT / "build" / preset / "libllamalloc.so" for preset in ("release", "debug")]
    share = 60 * float(arguments[0]) / (len(names) * len(libraries))
    failed = 0
    for library in libraries:
        os.environ["LLAMALLOC_TEST_LIBRARY"] = str(library)
        for name in names:
            label = f"{Path(library).parent.name}: {name}"
            failed += not stress(label, CONFIGURATIONS[name], share)
    total = len(names) * len(libraries)
    print(f"stress: {total - failed} of {total} configurations ok, {share:.1f} s each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
