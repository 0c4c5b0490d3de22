# SPDX-License-Identifier: Apache-2.0
"""Workloads: what is listed, what is said when something lacks, how a run ends."""

import json
import random
import re
import shlex
import sys
from pathlib import Path

import pytest

from lab import launcher, peers
from lab.launcher import LauncherError
from lab.places import ROOT
from lab.workloads import main as workloads
from lab.workloads import runner
from lab.workloads.programs import ALL, find, mariadb, redis_mixed, servers, z3
from lab.workloads.recipe import Recipe, Session, WorkloadError


class Script(Recipe):
    """A recipe out of a line of Python."""

    name = "script"

    def __init__(self, code: str = "pass") -> None:
        self.code = code

    def command(self, session: Session) -> list[str]:
        return [sys.executable, "-c", self.code]


def run(recipe: Recipe, **options) -> runner.Outcome:
    return runner.run(recipe, runner.Options(**options), lambda text: None)


def session_in(folder: Path, scale: float = 1.0, seed: int = 1) -> Session:
    return Session(folder, 1, scale, seed, lambda text: None)


def test_every_recipe_says_what_it_is_and_what_it_needs():
    setup = (ROOT / "scripts" / "setup.sh").read_text()
    known = set(re.findall(r"^(?:workloads|build)\|([^|]+)\|", setup, re.MULTILINE))
    for recipe in ALL:
        assert recipe.name and recipe.title and recipe.memory and recipe.programs, recipe.name
        assert recipe.packages or recipe.install, recipe.name
        assert set(recipe.packages) <= known, recipe.name
    assert len({recipe.name for recipe in ALL}) == len(ALL) >= 9


def test_every_recipe_is_in_the_readme():
    readme = (ROOT / "workloads" / "README.md").read_text()
    for recipe in ALL:
        assert f"| `{recipe.name}` |" in readme


def test_the_list_names_all(capsys):
    assert workloads.main(["list"]) == 0
    printed = capsys.readouterr().out
    for recipe in ALL:
        assert recipe.name in printed


def test_an_unknown_workload_is_one_line_that_lists_them(capsys):
    assert workloads.main(["run", "nosuch"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("workloads: no workload 'nosuch'; there are redis,")
    assert complaint.count("\n") == 1


def test_a_missing_program_is_one_line_with_the_packages():
    recipe = Script()
    recipe.programs, recipe.packages = ("no-such-program", "/no/header.h"), ("some-dev", "g++")
    with pytest.raises(WorkloadError) as caught:
        run(recipe)
    assert str(caught.value) == (
        "script: no-such-program, /no/header.h not found; install: apt-get install some-dev g++"
    )


def test_a_batch_program_is_run_and_watched():
    outcome = run(Script("x = b'x' * (64 << 20)\nimport time\ntime.sleep(0.5)"))
    assert outcome.peak_rss > 64 << 20
    assert outcome.series and outcome.seconds > 0.4


def test_the_charge_is_told_beside_rss_where_there_is_a_group(monkeypatch):
    holder = Script("x = b'x' * (64 << 20)\nimport time\ntime.sleep(0.5)")
    outcome = run(holder)
    if outcome.charge is None:
        pytest.skip("no memory control group can be made here")
    assert 64 << 20 < outcome.peak_charge < 160 << 20
    assert outcome.average_charge <= outcome.peak_charge
    charge, rss = workloads.memory(outcome, "at last")
    assert charge.startswith("  charge: peak ") and rss.startswith("  RSS:    peak ")
    assert ", at last " in charge and ", at last " in rss
    assert "of anonymous memory on huge pages" in rss
    outcome.launched = True
    assert workloads.memory(outcome, "at last")[0].endswith(
        "with the launcher, which stays beside the program"
    )
    outcome.live = outcome.peak_charge // 2
    live = f"  live:   most {outcome.live / 2**20:,.0f} MiB, peak / live 2.00"
    assert workloads.memory(outcome, "at last")[2:] == [live]


def test_without_a_group_that_is_said_and_rss_is_told(monkeypatch):
    monkeypatch.setattr(runner.MemoryGroup, "_create", classmethod(lambda *_: None))
    outcome = run(Script("import time\ntime.sleep(0.3)"))
    assert outcome.charge is None and outcome.rss
    assert workloads.memory(outcome, "at last")[0].startswith(
        "no memory control group can be made here"
    )


def test_what_a_server_says_was_live_is_asked_after_its_load(tmp_path):
    server = Server(tmp_path / "state")
    server.most_live = lambda session: 5 if server.loaded else 1
    assert run(server, settle=0).live == 5


def test_what_was_live_is_watched_under_llamalloc_only(monkeypatch):
    watched = []

    def ran(recipe, options, say):
        watched.append(options.live)
        return runner.Outcome("script")

    monkeypatch.setattr("lab.workloads.programs.ALL", (Script(),))
    monkeypatch.setattr(runner, "run", ran)
    ours = ["--preload", "build/release/libllamalloc.so"]
    for words in ([], ["--preload", "jemalloc"], ours, ["--under", "llamalloc run"]):
        assert workloads.main(["run", "script", *words]) == 0
    assert watched == [False, False, True, True]


def test_a_wrong_exit_code_is_told_with_the_last_words():
    with pytest.raises(WorkloadError, match=r"script ended with 3; it said: .*sorry"):
        run(Script("import sys\nprint('sorry')\nsys.exit(3)"))


def test_a_result_is_noted_and_what_stays_after_it(monkeypatch):
    monkeypatch.setattr(runner, "_REST", (0.2, 0.8))
    code = "x = b'x' * (64 << 20)\nprint('x ops=1', flush=True)\nimport time\ntime.sleep(1)"
    recipe = Script("import time\ntime.sleep(.5)\n" + code)
    recipe.result = r"^\w+ ops=\d+$"
    outcome = run(recipe)
    assert outcome.result == "x ops=1" and 0.4 < outcome.result_at < outcome.seconds
    assert outcome.at_rest()[0] > 64 << 20
    recipe = Script("print('xops=1')")
    recipe.result = r"^\w+ ops=\d+$"
    with pytest.raises(WorkloadError, match="script did not say its result; it said: xops=1"):
        run(recipe)
    assert runner.Outcome("script", series=[(2.5, 1)]).at_rest() == (0, 0)


def test_a_made_server_is_short_where_it_is_small(tmp_path, monkeypatch):
    monkeypatch.setattr(servers, "built", lambda name: Path(name))
    for scale, seconds in ((2, 40), (0.5, 40), (0.1, 16), (0.01, 3)):
        words = find("server-orm").command(session_in(tmp_path, scale, 7))
        assert words[:3] == ["server-orm", "--seed", "7"]
        assert (float(words[4]), float(words[6])) == (scale, seconds)


class Server(Script):
    """Ends by SIGTERM, says so in a file."""

    name = "server"
    loaded = False

    def __init__(self, file: Path, fault: bool = False) -> None:
        super().__init__(
            "import signal, sys, pathlib, time\n"
            f"file = pathlib.Path({str(file)!r})\n"
            "signal.signal(signal.SIGTERM, lambda *_: (file.write_text('ended'), sys.exit(0)))\n"
            "file.write_text('up')\n"
            "time.sleep(60)"
        )
        self.file, self.fault = file, fault

    def ready(self, session: Session) -> bool:
        return self.file.exists() and self.file.read_text() == "up"

    def load(self, session: Session) -> None:
        self.loaded = True
        if self.fault:
            raise WorkloadError("no good")


def test_a_server_is_loaded_and_told_to_end(tmp_path):
    server = Server(tmp_path / "state")
    run(server, settle=0)
    assert server.loaded
    assert server.file.read_text() == "ended"


def test_a_server_whose_load_failed_is_ended_too(tmp_path):
    server = Server(tmp_path / "state", fault=True)
    with pytest.raises(WorkloadError, match="no good"):
        run(server)
    assert server.file.read_text() == "ended"


def test_a_server_that_ends_at_its_start_is_told(tmp_path):
    server = Server(tmp_path / "state")
    server.code = "raise SystemExit(7)"
    with pytest.raises(WorkloadError, match="server ended with 7 at its start"):
        run(server)


def test_under_puts_words_before_the_program(tmp_path):
    seen = tmp_path / "seen"
    run(Script(), under=f'sh -c \'echo "$@" > {seen}; "$@"\' launcher')
    assert seen.read_text().startswith(f"{sys.executable} -c pass")


def test_a_launcher_that_stays_is_not_measured():
    launcher_code = (
        "import subprocess, sys, time\n"
        "subprocess.run(sys.argv[1:])\n"
        "much = b'x' * (128 << 20)\n"
        "time.sleep(0.5)"
    )
    outcome = run(
        Script("x = b'x' * (32 << 20)\nimport time\ntime.sleep(0.5)"),
        under=shlex.join([sys.executable, "-c", launcher_code]),
    )
    assert 32 << 20 < outcome.peak_rss < 100 << 20
    assert outcome.rss == outcome.series[-1][1]


def test_a_child_of_the_program_that_ends_does_not_end_the_measurement():
    outcome = run(
        Script(
            "import os, subprocess, sys, time\n"
            "subprocess.run([sys.executable, '-c', 'import time; time.sleep(0.4)'])\n"
            "much = b'x' * (64 << 20)\n"
            "time.sleep(0.5)\n"
            "os._exit(0)"  # with all that it holds: the last sample must not see it freed
        )
    )
    assert outcome.peak_rss > 64 << 20 and outcome.series[-1][1] > 64 << 20
    assert not outcome.launched


def test_llamalloc_under_is_this_version():
    words = launcher.under("llamalloc record -o p.pb.gz")
    assert words == [sys.executable, "-m", "llamalloc.cli", "record", "-o", "p.pb.gz", "--"]
    assert launcher.under("llamalloc run --") == [*launcher.LLAMALLOC, "run", "--"]


def test_a_library_that_is_not_there_is_told():
    with pytest.raises(LauncherError, match=r"--preload /no/lib.so: no such file"):
        launcher.with_preload({}, "/no/lib.so")
    with pytest.raises(LauncherError, match=r"libnosuch\.so\.1: not installed"):
        launcher.with_preload({}, "libnosuch.so.1")
    assert launcher.with_preload({"A": "b"}, "glibc") == {"A": "b"}


def test_a_built_peer_is_preloaded_with_its_tunables(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "OUT", tmp_path)
    with pytest.raises(launcher.LauncherError, match="--preload tcmalloc: Debian has none"):
        launcher.with_preload({}, "tcmalloc")
    library = tmp_path / "libtcmalloc.so"
    library.touch()
    assert launcher.with_preload({"A": "b"}, "tcmalloc") == {
        "A": "b",
        "LD_PRELOAD": str(library),
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
    }


def test_figures_are_written_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("lab.workloads.programs.ALL", (Script("import time; time.sleep(.3)"),))
    file = tmp_path / "figures.json"
    assert workloads.main(["run", "script", "--json", str(file)]) == 0
    assert json.loads(file.read_text())["name"] == "script"
    assert "RSS:    peak" in (said := capsys.readouterr().out) and ", last seen " in said


def test_loads_repeat_by_their_seed(tmp_path):
    one, two, other = (session_in(tmp_path, seed=seed) for seed in (1, 1, 2))
    assert list(z3.problems(one.random(), 3, 1)) == list(z3.problems(two.random(), 3, 1))
    assert list(z3.problems(one.random(), 3, 1)) != list(z3.problems(other.random(), 3, 1))
    texts = [list(mariadb._statements(s.random(0, 1), 100, 50)) for s in (one, two, other)]
    assert texts[0] == texts[1] != texts[2]


def test_a_scale_keeps_at_least_one(tmp_path):
    session = session_in(tmp_path, scale=0.01)
    assert (session.scaled(1000), session.scaled(10), session.scaled(10, 3)) == (10, 1, 3)
    assert find("redis").name == "redis"


def test_redis_commands_are_encoded():
    assert redis_mixed.encoded("SET", "k", b"\r\n", 7) == (
        b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n$1\r\n7\r\n"
    )


def test_redis_values_are_of_all_sizes():
    sizes = [len(redis_mixed._value(random.Random(n))) for n in range(2000)]
    assert min(sizes) >= 10 and max(sizes) <= 60_000
    assert min(sizes) < 50 and max(sizes) > 10_000
