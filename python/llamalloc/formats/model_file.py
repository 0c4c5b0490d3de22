# SPDX-License-Identifier: Apache-2.0
"""Model files, contracts/model_format.md: the twin of src/predict/model_file.cc, and the writer."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from llamalloc import __version__
from llamalloc.formats import contracts, tokens
from llamalloc.formats.learned_state import Gate, gate_of_text, text_of_gate

FORMAT = "llamalloc-model"
VERSION = "3"
SIZE_ROWS = 64  # of the network's size bias
MAX_NODES = 1 << 20  # of each table
MAX_BUILDS = 64
MAX_PROGRAMS = 511  # characters
OPEN = 0x7F  # an answer: not decided
DEEPER = 0x80  # an answer: ask the next level
NEARNESSES = ("nothing", "caller", "site", "site and caller")  # how much of a stack names knew
NOT_MEASURED = -1.0


class Weights(NamedTuple):
    """All parameters, float32, by their names in the model file; while training, JAX arrays."""

    embedding: np.ndarray  # [V, E]
    depth_scale: np.ndarray  # [D, E]
    hidden_kernel: np.ndarray  # [E, H]
    size_bias: np.ndarray  # [SIZE_ROWS, H]
    dense_kernel: np.ndarray  # [H, C]
    dense_bias: np.ndarray  # [C]


class ModelError(ValueError):
    """A model file that cannot be used. The message names the file and the cause."""


class Evidence(NamedTuple):
    """The tables, by the names of their tensors in the model file; keys ascend."""

    exact_keys: np.ndarray = np.zeros(0, np.uint64)  # [N]
    exact_answers: np.ndarray = np.zeros(0, np.uint8)  # [N]
    exact_samples: np.ndarray = np.zeros(0, np.uint32)  # [N]
    name_keys: np.ndarray = np.zeros(0, np.uint64)  # [M]
    name_answers: np.ndarray = np.zeros((0, 2), np.uint8)  # [M, 2]: answer, prior
    name_samples: np.ndarray = np.zeros(0, np.uint32)  # [M]
    table_trust: np.ndarray = np.full(2, NOT_MEASURED, np.float32)  # of exact and name
    prior_trust: np.ndarray = np.full(4, NOT_MEASURED, np.float32)  # by NEARNESSES
    network_trust: np.ndarray = np.full(4, NOT_MEASURED, np.float32)  # by NEARNESSES
    builds: np.ndarray = np.zeros(0, np.uint64)  # [P]


_NO_EVIDENCE = Evidence()


def size_row(size: int) -> int:
    """The row of the size bias for requests of `size` bytes: two for each doubling."""
    bucket = tokens.size_bucket(size)
    log = bucket.bit_length() - 1
    return min(2 * log + (bucket >> (log - 1) & 1), SIZE_ROWS - 1)


@dataclass(frozen=True)
class Model:
    """All that a model file holds. `programs`: names of the files learned from; none: any.

    `gate`: what those programs proved of placement by lifetime.
    """

    vocabulary: tuple[str, ...]
    weights: Weights
    rule: str
    evidence: Evidence = _NO_EVIDENCE
    programs: tuple[str, ...] = ()
    gate: Gate = field(default_factory=Gate)


def check_writable(path: Path) -> None:
    """Raises ModelError if `path` cannot become a model file: to be known before the work."""
    if path.is_dir():
        raise ModelError(f"{path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ModelError(f"{path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ModelError(f"{path}: no right to write in {path.parent}; choose another place")


def write(model: Model, path: Path) -> int:
    """Writes the model and reads it back; returns its size in bytes.

    The file appears whole or not at all. Raises ModelError if it does not read back equal.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(_packed(model))
        _check_equal(model, read(partial))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path.stat().st_size


def _packed(model: Model) -> bytes:
    text = "\n".join(model.vocabulary).encode()
    tensors = {"vocabulary": np.frombuffer(text, np.uint8).copy()}
    for name, value in model.weights._asdict().items():
        tensors[name] = np.ascontiguousarray(value, dtype=np.float32)
    for name, value in model.evidence._asdict().items():
        tensors[name] = np.ascontiguousarray(value)
    proof = {} if model.gate == Gate() else {"gate": text_of_gate(model.gate)}
    metadata = proof | {
        "format": FORMAT,
        "version": VERSION,
        "classes": ",".join(contracts.class_names()),
        "rule": model.rule,
        "programs": ",".join(model.programs),
        "created_by": f"llamalloc {__version__}",
    }
    return _in_fixed_order(save(tensors, metadata))


def _in_fixed_order(data: bytes) -> bytes:
    """The same file with the keys of its header sorted: the library's order changes by the run."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[end:]


def read(path: Path) -> Model:
    """The model in file `path`. Raises ModelError for whatever model_format.md does not allow."""
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as fault:
        raise ModelError(f"{path}: not a model file ({fault})") from fault
    if metadata.get("format") != FORMAT:
        raise ModelError(f"{path}: format is {metadata.get('format')!r}, not {FORMAT!r}")
    if metadata.get("version") != VERSION:
        found = metadata.get("version")
        raise ModelError(f"{path}: version is {found!r}, not {VERSION!r}; train it again")
    if metadata.get("classes") != ",".join(contracts.class_names()):
        raise ModelError(f"{path}: made for other lifetime classes; train it anew")
    return Model(
        _vocabulary(path, tensors),
        _weights(path, tensors),
        metadata.get("rule", ""),
        _evidence(path, tensors),
        tuple(name for name in metadata.get("programs", "").split(",") if name),
        gate_of_text(metadata.get("gate", "")) or Gate(),
    )


def _vocabulary(path: Path, tensors: dict[str, np.ndarray]) -> tuple[str, ...]:
    try:
        words = tensors["vocabulary"].tobytes().decode().split("\n")
    except (KeyError, UnicodeDecodeError) as fault:
        raise ModelError(f"{path}: it has no readable vocabulary") from fault
    if words[:2] != [tokens.UNKNOWN, tokens.SEPARATOR] or len(set(words)) != len(words):
        raise ModelError(f"{path}: the vocabulary lacks <unk> and @ in front, or repeats itself")
    return tuple(words)


def _weights(path: Path, tensors: dict[str, np.ndarray]) -> Weights:
    missing = [name for name in Weights._fields if name not in tensors]
    if missing:
        raise ModelError(f"{path}: it lacks the tensor {missing[0]}")
    weights = Weights(*(tensors[name] for name in Weights._fields))
    width, hidden = weights.embedding.shape[-1], weights.dense_kernel.shape[0]
    shapes = Weights(
        embedding=(len(_vocabulary(path, tensors)), width),
        depth_scale=(weights.depth_scale.shape[0], width),
        hidden_kernel=(width, hidden),
        size_bias=(SIZE_ROWS, hidden),
        dense_kernel=(hidden, len(contracts.class_names())),
        dense_bias=(len(contracts.class_names()),),
    )
    for name, value, shape in zip(Weights._fields, weights, shapes, strict=True):
        if value.shape != shape or value.dtype != np.float32:
            raise ModelError(f"{path}: {name} is {value.dtype} {value.shape}, not float32 {shape}")
        if not np.isfinite(value).all():
            raise ModelError(f"{path}: {name} holds numbers that are not finite")
    if not 1 <= len(weights.depth_scale) <= tokens.MAX_FRAMES:
        raise ModelError(f"{path}: {len(weights.depth_scale)} depths, not 1 to {tokens.MAX_FRAMES}")
    return weights


def _evidence(path: Path, tensors: dict[str, np.ndarray]) -> Evidence:
    missing = [name for name in Evidence._fields if name not in tensors]
    if missing:
        raise ModelError(f"{path}: it lacks the tensor {missing[0]}")
    found = Evidence(*(tensors[name] for name in Evidence._fields))
    exact, names = len(found.exact_keys), len(found.name_keys)
    shapes = {"exact_keys": (exact,), "exact_answers": (exact,), "exact_samples": (exact,)}
    shapes |= {"name_keys": (names,), "name_answers": (names, 2), "name_samples": (names,)}
    shapes |= {"table_trust": (2,), "prior_trust": (4,), "network_trust": (4,)}
    for name, value in found._asdict().items():
        dtype = getattr(_NO_EVIDENCE, name).dtype
        if value.dtype != dtype or value.shape != shapes.get(name, value.shape[:1]):
            raise ModelError(f"{path}: {name} is {value.dtype} {value.shape}")
        if name.endswith("_trust") and not all(t == -1 or 0 <= t <= 1 for t in value):
            raise ModelError(f"{path}: {name} holds what is neither a share nor -1")
    for name, keys in (("exact_keys", found.exact_keys), ("name_keys", found.name_keys)):
        if len(keys) > MAX_NODES or not (keys[1:] > keys[:-1]).all():
            raise ModelError(f"{path}: {name} does not ascend, or holds more than {MAX_NODES:,}")
    answers = np.concatenate([found.exact_answers, found.name_answers[:, 0]])
    count = len(contracts.class_names())
    known = (answers < count) | (answers == OPEN) | (answers == DEEPER)
    if not known.all() or not (found.name_answers[:, 1] < count).all():
        raise ModelError(f"{path}: its tables hold what is no answer")
    if len(found.builds) > MAX_BUILDS:
        raise ModelError(f"{path}: more than {MAX_BUILDS} builds")
    return found


def _check_equal(wrote: Model, found: Model) -> None:
    same = all(np.array_equal(a, b) for a, b in zip(wrote.weights, found.weights, strict=True))
    same &= all(map(np.array_equal, wrote.evidence, found.evidence))
    same &= wrote.programs == found.programs and wrote.gate == found.gate
    if not same or wrote.vocabulary != found.vocabulary or wrote.rule != found.rule:
        raise ModelError("the model did not read back as it was written; is the disk sound?")
