# SPDX-License-Identifier: Apache-2.0
"""`train`: profiles in, model file and an account of its accuracy out.

    profiles -> Split(learn, measure) -> fit -> measure on what was not learned -> model file

The model is measured on contexts or runs that it did not learn from:
  hold-out runs given      learn all profiles, measure on the hold-out
  two or more profiles     learn all but the last, measure on the last, then learn the last as well
  one profile              learn four fifths of the contexts, measure on the rest, then learn those
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llamalloc.formats import model_file, profile
from llamalloc.formats.profile import Profile
from llamalloc.learning import baselines, dataset, fit, labels, lstm, metrics
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.train_result import Measured, TrainResult, Wrong, lifetimes_by_class

DEFAULT_STEPS = 3000
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


def train(
    profiles: Sequence[Path],
    out: Path,
    *,
    rule: str = "tail",
    seed: int = 0,
    tail: float = labels.DEFAULT_TAIL,
    holdout: Sequence[Path] = (),
    steps: int = DEFAULT_STEPS,
    progress: Progress = lambda what, done, total: None,
) -> TrainResult:
    """Learns a model from `profiles`, writes it to `out`, and says how good it is.

    `rule`: `tail` or `p95`; `tail`: the share of objects that may outlive their class; `steps`: at
    most so many batches a phase. Raises ProfileError for a bad profile, ModelError or OSError where
    the model cannot be written.
    """
    started = time.monotonic()
    model_file.check_writable(Path(out))
    paths = [Path(path) for path in [*profiles, *holdout]]
    runs = _read(paths, progress)
    split = _split(runs[: len(profiles)], runs[len(profiles) :], rule, tail, seed)
    vocabulary = dataset.vocabulary(split.ship.tokens())
    learner = _Learner(vocabulary, seed, steps, progress)
    learner.learn(split.learn, "learning")
    known = _known_tokens(split.learn, vocabulary)
    measured = _measure(split, lambda data: learner.predict(data, known))
    if split.ship is not split.learn:
        learner.learn(split.ship, "learning what was held out")
    model = model_file.Model(tuple(vocabulary), learner.weights, str(labels.Rule(rule)))
    size = model_file.write(model, Path(out))
    return TrainResult(
        program=runs[0].program,
        rule=model.rule,
        tail=tail,
        seed=seed,
        split=split.kind,
        profiles=[str(path) for path in profiles],
        holdout=[str(path) for path in holdout],
        learned=split.ship,
        measured_on=split.measure,
        scores=measured.scores,
        confusion=measured.confusion,
        wrong=measured.wrong,
        shipped=learner.score(split.ship),
        lifetimes=lifetimes_by_class(split.ship),
        vocabulary=len(vocabulary),
        steps=learner.steps_done,
        model_path=str(out),
        model_bytes=size,
        seconds=time.monotonic() - started,
    )


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
        return Split("holdout", everything, dataset.build(held, rule, tail), everything)
    if len(runs) > 1:
        first, last = (dataset.build(some, rule, tail) for some in (runs[:-1], runs[-1:]))
        return Split("last run", first, last, everything)
    kept, out = dataset.split_by_context(everything, _HELD_OUT_SHARE, seed)
    return Split("contexts", everything.pick(kept), everything.pick(out), everything)


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
        self.weights = lstm.initial(seed, len(vocabulary), len(CLASS_NAMES))

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
