# SPDX-License-Identifier: Apache-2.0
"""Runs a suite under a variant: probes, commands, a log for each, outcomes, a record."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from . import debian, witness
from .record import Record
from .suite import Command, Outcomes, Output, Suite, SuiteError
from .variant import OURS, Variant, prove


def say(text: str) -> None:
    """A progress line."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def prepared(name: str, suite: Suite, out: Path) -> Path:
    """The folder of `suite`, with all that its commands need."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    debian.require(name, suite.packages)
    suite.prepare(folder)
    return folder


def run(name: str, suite: Suite, variant: Variant, out: Path) -> Record:
    """Runs every command of `suite` under `variant`, and writes the record into its folder."""
    folder = prepared(name, suite, out)
    place = folder / variant.file_name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if "profile" in variant.environment(place).get("LLAMALLOC_CONF", ""):
        (place / "profiles").mkdir()
    for probe in suite.probes:
        prove(variant, probe, place)
    commands = suite.commands(folder)
    say(f"{name}: {variant.name}: {len(commands)} commands, logs in {place}")
    began = time.monotonic()
    library = variant.library if variant.allocator == OURS else None
    try:
        with witness.Witness(library) as seen, ThreadPoolExecutor(suite.parallel) as pool:
            parts = pool.map(lambda c: _outcomes(name, c, variant, place, seen), commands)
            tests = _merge(list(parts))
    finally:
        witness.end_all()
    record = Record(
        suite=name,
        version=suite.version(),
        what=suite.what,
        allocator=variant.allocator,
        conf=variant.conf,
        seconds=round(time.monotonic() - began),
        tests=tests,
        programs=seen.programs(),
    )
    record.write(folder)
    return record


def _merge(parts: Sequence[Outcomes]) -> Outcomes:
    tests: Outcomes = {}
    for part in parts:
        if twice := tests.keys() & part.keys():
            raise SuiteError(f"two commands have a test of the same name: {sorted(twice)[0]}")
        tests |= part
    return dict(sorted(tests.items()))


def _outcomes(
    suite: str, command: Command, variant: Variant, place: Path, seen: witness.Witness
) -> Outcomes:
    output = _execute(command, variant, place, seen)
    found = command.outcomes(output)
    bad = [test for test, outcome in found.items() if outcome == "failed"]
    if command.parse or bad:
        say(f"{suite}: {variant.name}: {command.name}: {len(found)} tests, {len(bad)} failed")
    return found


def _execute(command: Command, variant: Variant, place: Path, seen: witness.Witness) -> Output:
    """Runs `command` in a session of its own, which ends with it or at its time limit."""
    file_name = re.sub(r"[^\w.+-]+", "-", command.name)
    scratch = place / f"{file_name}.run"
    scratch.mkdir()
    log = place / f"{file_name}.log"

    def filled(word: str | Path) -> str:
        return str(word).replace("{folder}", str(scratch))

    extra = {key: filled(value) for key, value in command.environment.items()}
    with log.open("wb") as file:
        process = seen.start(
            [filled(word) for word in command.words],
            cwd=command.cwd or scratch,
            env=variant.environment(place) | extra,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(timeout=command.seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Output(status, log.read_text(errors="replace"), scratch)
