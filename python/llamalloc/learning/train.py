# SPDX-License-Identifier: Apache-2.0
"""`train`: profiles in, model file and an account of its accuracy out.

    profiles -> Split(learn, measure) -> fit -> measure on what was not learned -> model file

State files give counts for the tables; the network learns from profiles only. The evidence is
measured on contexts or runs that it did not learn from (learning/trial.py):
  hold-out runs given      learn all profiles, measure on the hold-out
  profiles of more runs    learn all but the last, measure on the last, then learn the last as well
  one run                  learn four fifths of the contexts, measure on the rest, then learn those
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llamalloc.formats import learned_state, model_file, profile, tokens
from llamalloc.formats.learned_state import Gate, LearnedState
from llamalloc.formats.model_file import MAX_BUILDS, MAX_PROGRAMS, Evidence
from llamalloc.formats.profile import Profile, ProfileError
from llamalloc.learning import (
    bag_of_frames,
    baselines,
    contexts,
    dataset,
    fit,
    labels,
    metrics,
    placement,
    tables,
    trial,
    verdict,
)
from llamalloc.learning import runs as runs_of
from llamalloc.learning.context_tree import Rule
from llamalloc.learning.contexts import Kept, Seen
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.train_result import Measured, TrainResult, Wrong, lifetimes_by_class

DEFAULT_STEPS = 1000
_HELD_OUT_SHARE = 0.2
_WRONG_SHOWN = 20

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Split:
    """What is learned before measuring, measured on, and learned in the end."""

    kind: str
    learn: Dataset
    measure: Dataset
    ship: Dataset
    learn_runs: list[Profile]
    held_runs: list[Profile]  # none: contexts were held out
    ship_runs: list[Profile]


def train(
    inputs: Sequence[Path],
    out: Path,
    *,
    rule: str = "tail",
    seed: int = 0,
    tail: float = labels.DEFAULT_TAIL,
    holdout: Sequence[Path] = (),
    steps: int = DEFAULT_STEPS,
    progress: Progress = lambda what, done, total: None,
) -> TrainResult:
    """Learns a model from `inputs`, writes it to `out`, and says how good it is.

    `inputs`: profiles and state files; `rule`: `tail` or `p95`; `tail`: the share of objects that
    may outlive their class; `steps`: at most so many batches a phase. Raises ProfileError or
    StateError for a bad input, ModelError or OSError where the model cannot be written.
    """
    started = time.monotonic()
    model_file.check_replaceable(Path(out))
    progress("reading profiles", 0, len(inputs) + len(holdout))
    profiles, states = _sorted_out([Path(path) for path in inputs])
    paths = [*profiles, *map(Path, holdout)]
    read = _read(paths, progress)
    given, held = runs_of.distinct(read[: len(profiles)]), runs_of.distinct(read[len(profiles) :])
    runs_of.check_held(held, given)
    runs = [*given, *held]
    split = _split(given, held, rule, tail, seed)
    knowledge = _Knowledge(split, states, Rule(str(labels.Rule(rule)), tail))
    vocabulary = dataset.vocabulary(split.ship.tokens())
    learner = _Learner(vocabulary, seed, steps, progress)
    measured = Measured({}, np.zeros((len(CLASS_NAMES),) * 2), [])
    if len(split.learn):
        learner.learn(_shown(split.learn), "learning")
        known = _known_tokens(_shown(split.learn), vocabulary)
        measured = _measure(split, lambda data: learner.predict(data, known))
        knowledge.measure(lambda some: learner.choose(some, known))
        learner.learn(split.ship, "learning what was held out")
    decided = knowledge.judge()
    proof = Gate() if decided.use == "no" else knowledge.proof(runs)
    model = model_file.Model(
        tuple(vocabulary),
        learner.weights,
        str(labels.Rule(rule)),
        knowledge.shipped(),
        _programs([run.program for run in given] + [s.name for s in states]),
        proof,
    )
    size = model_file.write(model, Path(out))
    return TrainResult(
        program=" and ".join(model.programs),
        rule=model.rule,
        tail=tail,
        seed=seed,
        split=split.kind,
        profiles=[str(run.path) for run in given],
        states=[str(path) for path in inputs if Path(path) not in profiles],
        holdout=[str(run.path) for run in held],
        learned=split.ship,
        measured_on=split.measure,
        scores=measured.scores,
        confusion=measured.confusion,
        wrong=measured.wrong,
        shipped=learner.score(split.ship) if len(split.ship) else None,
        lifetimes=lifetimes_by_class(split.ship),
        evidence=model.evidence,
        trial=knowledge.trial,
        verdict=decided,
        gate=proof,
        vocabulary=len(vocabulary),
        steps=learner.steps_done,
        model_path=str(out),
        model_bytes=size,
        seconds=time.monotonic() - started,
    )


class _Knowledge:
    """The tables under training: what they are made of, and what they are worth."""

    def __init__(self, split: Split, states: list[LearnedState], rule: Rule):
        self.split = split
        self.states = states
        self.rule = rule
        self.kept = contexts.gather(states)
        self.seen = contexts.pool(split.ship_runs)
        self.trial = trial.Trial()
        self.trusted = Evidence()

    def measure(self, network: trial.Network) -> None:
        """Trust, on what was held out."""
        held = contexts.pool(self.split.held_runs)
        learn = contexts.pool(self.split.learn_runs) if held else self.seen
        shown = [one for one in learn if not _is_hidden(one)] or learn
        known = {(one.frames, one.size) for one in shown}
        unknown = [one for one in held or learn if (one.frames, one.size) not in known]
        partial = tables.build(shown, Kept(), self.rule)
        # Not what was kept: it may have been learned in the run that is held out.
        whole = tables.build(learn, Kept(), self.rule) if held else partial
        self.trusted = trial.with_trust(whole, held, partial, unknown, network, self.rule)
        self.trial = trial.run(self.trusted, held or unknown, network, self.rule)

    def shipped(self) -> Evidence:
        """The tables of all that there is."""
        trusted = self.trusted
        builds = {run.build for run in self.split.ship_runs} | {s.program for s in self.states}
        return tables.build(self.seen, self.kept, self.rule)._replace(
            table_trust=trusted.table_trust,
            prior_trust=trusted.prior_trust,
            network_trust=trusted.network_trust,
            builds=np.array(sorted(builds - {0})[:MAX_BUILDS], np.uint64),
        )

    def proof(self, runs: Sequence[Profile]) -> Gate:
        """What all runs prove of placement, those that were held out as well."""
        return placement.proof(self.states, runs, self.seen, self.rule)

    def judge(self) -> verdict.Verdict:
        """Whether to use the model."""
        on_run = bool(self.split.held_runs)
        return verdict.judge(
            self.trial, on_run, self.seen, self.split.ship_runs, self.states, self.rule
        )


def _is_hidden(one: Seen) -> bool:
    return trial.is_hidden(one.frames, one.size)


def _shown(data: Dataset) -> Dataset:
    """What the network learns before it is measured."""
    rows = [i for i, context in enumerate(data.contexts()) if not trial.is_hidden(*context)]
    return data.pick(rows) if rows else data


def _programs(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, as model files spell them; as many as they hold."""
    spelled = dict.fromkeys(
        "".join(c if "!" <= c <= "~" and c not in "/," else "_" for c in name) for name in names
    )
    fitting = [
        name
        for n, name in enumerate(spelled)
        if len(",".join(list(spelled)[: n + 1])) <= MAX_PROGRAMS
    ]
    return tuple(name for name in fitting if name)


def _sorted_out(paths: Sequence[Path]) -> tuple[list[Path], list[LearnedState]]:
    """The profiles' paths, and the state files read."""
    profiles, states = [], []
    for path in paths:
        try:
            is_state = learned_state.is_state_file(path)
        except OSError as fault:
            raise ProfileError(path, f"cannot be read ({fault.strerror})") from fault
        if is_state:
            states.append(learned_state.read(path))
        else:
            profiles.append(path)
    return profiles, states


def _read(paths: Sequence[Path], progress: Progress) -> list[Profile]:
    runs = []
    for number, path in enumerate(paths):
        progress("reading profiles", number, len(paths))
        runs.append(profile.read(path))
    progress("reading profiles", len(paths), len(paths))
    return runs


def _split(runs: list[Profile], held: list[Profile], rule: str, tail: float, seed: int) -> Split:
    everything = dataset.build(runs, rule, tail)
    if held:
        measure = dataset.build(held, rule, tail)
        return Split("holdout", everything, measure, everything, runs, held, runs)
    if len(runs) > 1:
        first, last = (dataset.build(some, rule, tail) for some in (runs[:-1], runs[-1:]))
        return Split("last run", first, last, everything, runs[:-1], runs[-1:], runs)
    kept, out = dataset.split_by_context(everything, _HELD_OUT_SHARE, seed)
    learn, measure = everything.pick(kept), everything.pick(out)
    return Split("contexts", learn, measure, everything, runs, [], runs)


def _known_tokens(data: Dataset, vocabulary: list[str]) -> list[str]:
    """The vocabulary with what `data` does not contain made unreachable: its rows are untrained."""
    seen = {token for sequence in data.tokens() for token in sequence}
    return [word if word in seen or not i else f"\n{i}" for i, word in enumerate(vocabulary)]


class _Learner:
    """The model under training."""

    def __init__(self, vocabulary: list[str], seed: int, steps: int, progress: Progress):
        self.vocabulary = vocabulary
        self.seed = seed
        self.steps = steps
        self.progress = progress
        self.steps_done = 0
        self.weights = bag_of_frames.initial(seed, len(vocabulary), len(CLASS_NAMES))

    def learn(self, data: Dataset, what: str) -> None:
        """Trains on `data` from where the weights are."""
        self.progress(what, 0, self.steps)
        result = fit.fit(
            self.weights,
            dataset.encode(data.tokens(), self.vocabulary),
            data.classes,
            data.weights,
            seed=self.seed + self.steps_done,
            steps=self.steps,
            report=lambda step, loss, right: self.progress(
                f"{what}: loss {loss:.3f}, {right:.1%} right", step, self.steps
            ),
        )
        self.progress(what, self.steps, self.steps)
        self.weights = result.weights
        self.steps_done += result.steps

    def predict(self, data: Dataset, vocabulary: list[str] | None = None) -> np.ndarray:
        """Class probabilities [N, C]."""
        return fit.predict(
            self.weights, dataset.encode(data.tokens(), vocabulary or self.vocabulary)
        )

    def choose(self, seen: Sequence[Seen], vocabulary: list[str]) -> np.ndarray:
        """Classes for placement [N]."""
        sequences = [tokens.tokens(one.frames, one.size) for one in seen]
        return trial.choose(fit.predict(self.weights, dataset.encode(sequences, vocabulary)))

    def score(self, data: Dataset) -> metrics.Score:
        """How right the weights are on `data`."""
        return metrics.score(data.classes, self.predict(data).argmax(axis=1), data.weights)


def _measure(split: Split, predict: Callable[[Dataset], np.ndarray]) -> Measured:
    """Model and tables on what was learned, on what was not, and on what was never seen at all."""
    tables = {
        "exact context": baselines.table(split.learn, baselines.exact_key),
        "site": baselines.table(split.learn, baselines.site_key),
    }
    seen = set(split.learn.contexts())
    unseen = [i for i, key in enumerate(split.measure.contexts()) if key not in seen]
    parts = {
        "learned": split.learn,
        "measured": split.measure,
        "never seen": split.measure.pick(unseen),
    }
    scores = {part: {} for part in parts}
    for part, data in parts.items():
        if len(data):
            chosen = predict(data).argmax(axis=1)
            scores[part]["model"] = metrics.score(data.classes, chosen, data.weights)
            for name, table in tables.items():
                chosen, known = table.predict(data)
                scores[part][name] = metrics.score(data.classes, chosen, data.weights, known)
    probabilities = predict(split.measure)
    chosen = probabilities.argmax(axis=1)
    matrix = metrics.confusion(split.measure.classes, chosen, split.measure.weights)
    return Measured(scores, matrix, _wrong(split.measure, probabilities))


def _wrong(data: Dataset, probabilities: np.ndarray) -> list[Wrong]:
    """The weightiest contexts that the model gets wrong."""
    chosen = probabilities.argmax(axis=1)
    rows = [int(i) for i in np.flatnonzero(chosen != data.classes)]
    rows.sort(key=lambda i: -data.weights[i])
    total = float(data.weights.sum())
    return [
        Wrong(
            frames=data.frames[i],
            size=data.sizes[i],
            samples=data.lives[i].total,
            share=float(data.weights[i]) / total,
            truth=CLASS_NAMES[data.classes[i]],
            predicted=CLASS_NAMES[chosen[i]],
            probability=float(probabilities[i, chosen[i]]),
        )
        for i in rows[:_WRONG_SHOWN]
    ]
