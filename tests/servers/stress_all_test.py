# SPDX-License-Identifier: Apache-2.0
"""`make stress` itself: it runs every program that it names, and a fault makes it fail."""

import pytest
import stress_all
from preload import compile_program, run
from stress_all import CONFIGURATIONS, Configuration, attempt, main, stress


@pytest.mark.parametrize("name", ["hardened", "forks, model", "little address space"])
def test_a_configuration_runs(name):
    assert attempt(CONFIGURATIONS[name], 0.5, 1) == ""


@pytest.mark.parametrize(
    ("name", "until", "before"),
    [
        ("gate closes", "predictions", "is on trial"),
        ("gate closes, learning", "predictions", "is on trial"),
        ("gate opens", "is on for what lives long", "is off"),
    ],
)
def test_the_gate_switches_under_load(name, until, before, tmp_path):
    program, *arguments = CONFIGURATIONS[name].program
    words = {"seconds": 100, "seed": 7, "folder": tmp_path, "model": tmp_path / "wrong.model"}
    stress_all.forge(words["model"])
    command = [compile_program(program), *(word.format(**words) for word in arguments), until]
    said = run(command, seconds=200, conf=CONFIGURATIONS[name].conf.format(**words)).stdout
    assert before in said.splitlines()[0]
    assert until in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("conf", "named"),
    [("no_such_option:1", "no_such_option"), ("model:{folder}/none", "none")],
)
def test_a_complaint_is_a_fault(conf, named, capsys):
    assert not stress("here", Configuration(stress_all.STRESS, conf), 0.5)
    assert "FAILED" in (shown := capsys.readouterr().out)
    assert named in shown


def test_an_exit_status_is_a_fault():
    assert "exit 2" in attempt(Configuration(("stress", "1")), 0.5, 1)


def test_no_memory_is_a_fault():
    assert "stress" in attempt(Configuration(stress_all.STRESS, address_space=48 << 20), 1, 1)


def test_unknown_names_are_refused(capsys):
    assert main(["1", "no such configuration"]) == 2
    assert "hardened" in capsys.readouterr().err
