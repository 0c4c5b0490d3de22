# SPDX-License-Identifier: Apache-2.0
"""The whole loop in seconds: record, train and run on a server whose lifetimes are known.

tests/servers/lifetimes_server.cc says which of its functions allocates for how long; the profile,
the labels, the model and the heap must each say the same. The server's printed checksum depends on
its seed alone, so it must not change with the allocator or with what the allocator predicts.
"""

import json
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from preload import ROOT, compile_program

from llamalloc.formats import profile
from llamalloc.learning import dataset, labels

COMMAND = ROOT / ".venv" / "bin" / "llamalloc"
SECONDS = "9"
STEPS = "250"
PLACES = ("--conf", "segregate:always")  # such a load has no troughs

KNOWN = {
    "parse_header": {"le_10ms", "le_100ms", "le_3s"},
    "build_reply": {"le_10ms", "le_100ms", "le_3s"},
    "open_session": {"le_10s"},
    "insert_row": {"never"},
    "cache_put": {"mixed"},
}
"""Function -> the classes that are right for what it allocates through server_alloc."""


@dataclass(frozen=True)
class Loop:
    """Files of one pass through the loop, and what the recorded servers printed, by seed."""

    profiles: dict[int, Path]
    printed: dict[int, str]
    model: Path
    trained: dict


def llamalloc(*words: str | Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, timeout=seconds, check=True
    )


def first_line(text: str) -> str:
    """The part of the server's output that depends on its seed alone."""
    assert text.startswith("checksum ")
    return text.splitlines()[0]


@pytest.fixture(scope="module")
def loop(tmp_path_factory) -> Loop:
    folder, server = tmp_path_factory.mktemp("loop"), compile_program("lifetimes_server")
    profiles = {seed: folder / f"p{seed}.pb.gz" for seed in (1, 2)}
    started = {
        seed: subprocess.Popen(
            [COMMAND, "record", "-o", path, "--interval", "4KiB", "--", server, SECONDS, str(seed)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed, path in profiles.items()
    }
    printed = {seed: process.communicate(timeout=60)[0] for seed, process in started.items()}
    assert all(process.returncode == 0 for process in started.values())
    model = folder / "m.model"
    done = llamalloc(
        "train", "-o", model, *profiles.values(), "--steps", STEPS, "--json", seconds=180
    )
    return Loop(profiles, printed, model, json.loads(done.stdout))


def classes_of(function: str, data: dataset.Dataset) -> Counter[str]:
    """Estimated allocations by class of what `function` allocates through server_alloc."""
    found: Counter[str] = Counter()
    for frames, weight, label in zip(data.frames, data.weights, data.classes, strict=True):
        if "server_alloc" in frames[0] and function in frames[1]:
            found[labels.CLASS_NAMES[label]] += weight
    return found


def test_profile_estimates_what_the_server_allocated(loop):
    for seed, path in loop.profiles.items():
        words = first_line(loop.printed[seed]).split()
        truth = int(words[words.index("allocated") + 1])
        contexts = profile.read(path).contexts
        estimate = sum(c.allocated_bytes for c in contexts if "server_alloc" in c.frames[0])
        assert estimate == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("function", KNOWN)
def test_recorded_lifetimes_get_the_right_class(loop, function):
    data = dataset.build([profile.read(path) for path in loop.profiles.values()])
    found = classes_of(function, data)
    right = sum(found[name] for name in KNOWN[function])
    assert right >= 0.8 * found.total() > 0, found


def test_model_learned_it(loop):
    scores = loop.trained["scores"]
    assert loop.trained["program"] == "lifetimes_server"
    assert scores["learned"]["model"]["page_group"] >= 0.95
    assert scores["measured"]["model"]["page_group"] >= 0.9


def test_heap_places_by_it_and_the_server_notices_nothing(loop, tmp_path):
    stats, server = tmp_path / "s.json", compile_program("lifetimes_server")
    apart = ("--conf", "segregate:always,share_pages_below:0")  # so small a heap would share them
    learned = llamalloc(
        "run", "--model", loop.model, "--stats", stats, *apart, "--", server, SECONDS, "3"
    )
    assert learned.stderr == ""
    plain = subprocess.run(
        [server, SECONDS, "3"], capture_output=True, text=True, timeout=60, check=True
    )
    assert first_line(learned.stdout) == first_line(plain.stdout)

    found = json.loads(stats.read_text())
    assert found["model"] == "loaded"
    assert found["stats"]["predict_misses"] > 10
    assert found["stats"]["predict_hits"] > 10_000
    for function in KNOWN:
        assert sum(found["predicted"][name] for name in KNOWN[function]) > 0, found["predicted"]
    groups = {group["group"]: group for group in found["groups"]}
    live = int(first_line(plain.stdout).split()[-1])
    # What dies has pages of its own. What lives on fills those of `unknown`, which has few, before
    # it takes others; how many `unknown` has when the first prediction comes is chance.
    assert groups["transient"]["allocated"] > 0 and groups["brief"]["allocated"] > 0, groups
    assert groups["permanent"]["allocated"] + groups["unknown"]["allocated"] >= 0.9 * live, groups
    assert groups["unknown"]["pages"] <= 3, groups


def test_what_the_model_knows_exactly_needs_no_worker(loop, tmp_path):
    """The same build: nearly all contexts are answered by the thread that meets them first."""
    stats, server = tmp_path / "s.json", compile_program("lifetimes_server")
    llamalloc("run", "--model", loop.model, *PLACES, "--stats", stats, "--", server, "2", "5")
    counts = json.loads(stats.read_text())["stats"]
    assert counts["predict_evaluated"] <= 0.5 * counts["predict_misses"], counts


def test_a_model_of_another_program_is_not_used(loop, tmp_path):
    stats, other = tmp_path / "s.json", tmp_path / "other_server"
    done = llamalloc("run", "--model", loop.model, "--stats", stats, "--", "/bin/echo", "alive")
    (line,) = done.stderr.splitlines()
    assert "of lifetimes_server, not of echo" in line and str(loop.model) in line
    assert json.loads(stats.read_text())["model"].startswith("refused: ")
    # A copy under another name is the same build.
    other.write_bytes(compile_program("lifetimes_server").read_bytes())
    other.chmod(0o755)
    done = llamalloc("run", "--model", loop.model, "--stats", stats, "--", other, "1", "4")
    assert done.stderr == ""
    assert json.loads(stats.read_text())["model"] == "loaded"


def test_a_model_of_another_build_says_so_and_is_used_by_names(loop, tmp_path):
    stats, other = tmp_path / "s.json", tmp_path / "lifetimes_server"
    data = bytearray(compile_program("lifetimes_server").read_bytes())
    note = b"\x03\0\0\0GNU\0"  # what precedes the build-id
    data[data.index(note) + len(note)] ^= 0xFF
    other.write_bytes(data)
    other.chmod(0o755)
    done = llamalloc("run", "--model", loop.model, *PLACES, "--stats", stats, "--", other, "2", "4")
    (line,) = done.stderr.splitlines()
    assert "of another build of lifetimes_server" in line
    found = json.loads(stats.read_text())
    assert found["model"] == "loaded"
    assert sum(found["predicted"][name] for name in KNOWN["insert_row"]) > 0, found["predicted"]


def test_a_damaged_model_costs_one_line(loop, tmp_path):
    damaged, stats = tmp_path / "damaged.model", tmp_path / "s.json"
    damaged.write_bytes(loop.model.read_bytes()[:-1000])
    server = compile_program("lifetimes_server")
    command = [COMMAND, "run", "--model", damaged, "--", server, "1", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert str(damaged) in done.stderr
    conf = f"model:{damaged}"  # as without the command
    done = llamalloc("run", "--conf", conf, "--stats", stats, "--", server, "1", "4")
    assert first_line(done.stdout)
    complaints = [line for line in done.stderr.splitlines() if str(damaged) in line]
    assert len(complaints) == 1, done.stderr
    found = json.loads(stats.read_text())
    assert found["model"].startswith("refused: ")
    assert sum(found["predicted"].values()) == 0
