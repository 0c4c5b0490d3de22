# SPDX-License-Identifier: Apache-2.0
"""Model files, contracts/model_format.md: the twin of src/predict/model_file.cc, and the writer."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from llamalloc import __version__
from llamalloc.formats import contracts, tokens

FORMAT = "llamalloc-model"
VERSION = "1"


class Weights(NamedTuple):
    """All parameters, float32, by their names in the model file; while training, JAX arrays."""

    embedding: np.ndarray  # [V, E]
    lstm_kernel: np.ndarray  # [E + H, 4 H], columns i, f, g, o
    lstm_bias: np.ndarray  # [4 H]
    dense_kernel: np.ndarray  # [H, C]
    dense_bias: np.ndarray  # [C]

    @property
    def hidden(self) -> int:
        """H."""
        return self.dense_kernel.shape[0]


class ModelError(ValueError):
    """A model file that cannot be used. The message names the file and the cause."""


@dataclass(frozen=True)
class Model:
    """All that a model file holds."""

    vocabulary: tuple[str, ...]
    weights: Weights
    rule: str


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
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "classes": ",".join(contracts.class_names()),
        "rule": model.rule,
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
    for key, expected in {"format": FORMAT, "version": VERSION}.items():
        if metadata.get(key) != expected:
            raise ModelError(f"{path}: {key} is {metadata.get(key)!r}, not {expected!r}")
    if metadata.get("classes") != ",".join(contracts.class_names()):
        raise ModelError(f"{path}: made for other lifetime classes; train it anew")
    return Model(_vocabulary(path, tensors), _weights(path, tensors), metadata.get("rule", ""))


def _vocabulary(path: Path, tensors: dict[str, np.ndarray]) -> tuple[str, ...]:
    try:
        words = tensors["vocabulary"].tobytes().decode().split("\n")
    except (KeyError, UnicodeDecodeError) as fault:
        raise ModelError(f"{path}: it has no readable vocabulary") from fault
    if words[0] != tokens.UNKNOWN or len(set(words)) != len(words):
        raise ModelError(f"{path}: the vocabulary lacks <unk> in front or repeats itself")
    return tuple(words)


def _weights(path: Path, tensors: dict[str, np.ndarray]) -> Weights:
    missing = [name for name in Weights._fields if name not in tensors]
    if missing:
        raise ModelError(f"{path}: it lacks the tensor {missing[0]}")
    weights = Weights(*(tensors[name] for name in Weights._fields))
    size, hidden = len(_vocabulary(path, tensors)), weights.dense_kernel.shape[0]
    shapes = Weights(
        embedding=(size, weights.embedding.shape[-1]),
        lstm_kernel=(weights.embedding.shape[-1] + hidden, 4 * hidden),
        lstm_bias=(4 * hidden,),
        dense_kernel=(hidden, len(contracts.class_names())),
        dense_bias=(len(contracts.class_names()),),
    )
    for name, value, shape in zip(Weights._fields, weights, shapes, strict=True):
        if value.shape != shape or value.dtype != np.float32:
            raise ModelError(f"{path}: {name} is {value.dtype} {value.shape}, not float32 {shape}")
        if not np.isfinite(value).all():
            raise ModelError(f"{path}: {name} holds numbers that are not finite")
    return weights


def _check_equal(wrote: Model, found: Model) -> None:
    same = all(np.array_equal(a, b) for a, b in zip(wrote.weights, found.weights, strict=True))
    if not same or wrote.vocabulary != found.vocabulary or wrote.rule != found.rule:
        raise ModelError("the model did not read back as it was written; is the disk sound?")
