# SPDX-License-Identifier: Apache-2.0
"""Model files, contracts/model_format.md: the twin of src/predict/model_file.cc, and the writer."""

import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save

from llamalloc import __version__
from llamalloc.formats import contracts, regular_file, safetensors_file, tokens
from llamalloc.formats.learned_state import Gate, gate_of_text, text_of_gate
from llamalloc.formats.safetensors_file import Kind, SafetensorsError, shown

FORMAT = "llamalloc-model"
VERSION = "3"
SIZE_ROWS = 64  # of the network's size bias
MAX_BYTES = 1 << 30
MAX_VOCABULARY = 1 << 20
MAX_WIDTH = 512  # of embedding and hidden
MAX_NODES = 1 << 20  # of each table
MAX_BUILDS = 64
MAX_PROGRAMS = 511  # characters
OPEN = 0x7F  # an answer: not decided
DEEPER = 0x80  # an answer: ask the next level
NEARNESSES = ("nothing", "caller", "site", "site and caller")  # how much of a stack names knew
NOT_MEASURED = -1.0

_METADATA = ("format", "version", "classes", "rule", "programs", "gate", "crc32")
_TENSORS = {
    "vocabulary": Kind("U8", np.uint8, 1),
    "embedding": Kind("F32", np.float32, 2),
    "depth_scale": Kind("F32", np.float32, 2),
    "hidden_kernel": Kind("F32", np.float32, 2),
    "size_bias": Kind("F32", np.float32, 2),
    "dense_kernel": Kind("F32", np.float32, 2),
    "dense_bias": Kind("F32", np.float32, 1),
    "exact_keys": Kind("U64", np.uint64, 1),
    "exact_answers": Kind("U8", np.uint8, 1),
    "exact_samples": Kind("U32", np.uint32, 1),
    "name_keys": Kind("U64", np.uint64, 1),
    "name_answers": Kind("U8", np.uint8, 2),
    "name_samples": Kind("U32", np.uint32, 1),
    "table_trust": Kind("F32", np.float32, 1),
    "prior_trust": Kind("F32", np.float32, 1),
    "network_trust": Kind("F32", np.float32, 1),
    "builds": Kind("U64", np.uint64, 1),
}


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
    """Raises ModelError if `path` cannot become a file of ours: to be known before the work."""
    try:
        regular_file.replaced(path)
    except OSError as fault:
        raise ModelError(f"{path}: {fault.strerror}") from None
    if not path.parent.is_dir():
        raise ModelError(f"{path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ModelError(f"{path}: no right to write in {path.parent}; choose another place")


def check_replaceable(path: Path) -> None:
    """Raises ModelError where `path` cannot become a model file, or is another file, which would be
    lost: `-o *.pb.gz` names a recording."""
    check_writable(path)
    if path.exists() and path.stat().st_size and not safetensors_file.begins(path):
        raise ModelError(f"{path}: is no model, and would be lost; remove it, or name another file")


def write(model: Model, path: Path) -> int:
    """Writes the model and reads it back; returns its size in bytes.

    The file appears whole or not at all. Raises ModelError if it does not read back equal.
    """
    with regular_file.partial(path) as partial:
        partial.write_bytes(_packed(model))
        _check_equal(model, read(partial))
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
    return _summed(save(tensors, metadata))


def _summed(data: bytes) -> bytes:
    """The same file with its checksum, and the keys of its header sorted: the library's order
    changes by the run."""
    end = 8 + int.from_bytes(data[:8], "little")
    rows = json.loads(data[8:end])
    rows["__metadata__"]["crc32"] = _sum(data, end)
    header = json.dumps(rows, sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[end:]


def _sum(data: bytes, end: int) -> str:
    return f"{zlib.crc32(data[end:]):08x}"


def read(path: Path) -> Model:
    """The model in file `path`. Raises ModelError for whatever model_format.md does not allow."""
    try:
        if not path.is_file() and path.exists():
            raise ModelError("not a regular file")
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"larger than {MAX_BYTES >> 20} MiB")
        return _model_of(path.read_bytes())
    except OSError as fault:
        raise ModelError(f"{path}: {fault.strerror}") from fault
    except (ModelError, SafetensorsError) as fault:
        raise ModelError(f"{path}: {fault}") from fault


def _model_of(data: bytes) -> Model:
    header = safetensors_file.read_header(data, _METADATA)
    _check_metadata(header.metadata)
    tensors = safetensors_file.read_tensors(data, header, _TENSORS)
    if header.metadata.get("crc32") not in (None, _sum(data, header.end)):
        raise ModelError("its checksum is wrong: the file is damaged; train again")
    vocabulary = _vocabulary(tensors["vocabulary"].tobytes())
    _check_weights(tensors, len(vocabulary))
    _check_evidence(tensors)
    return Model(
        vocabulary,
        Weights(*(tensors[name] for name in Weights._fields)),
        header.metadata.get("rule", ""),
        Evidence(*(tensors[name] for name in Evidence._fields)),
        tuple(name for name in header.metadata.get("programs", "").split(",") if name),
        gate_of_text(header.metadata.get("gate", "")) or Gate(),
    )


def _check_metadata(metadata: dict[str, str]) -> None:
    """The version comes before the tensors: those of another version have other names."""
    if metadata.get("format") != FORMAT:
        raise ModelError(f"a safetensors file, but not a {FORMAT}")
    if metadata.get("version") != VERSION:
        found = shown(metadata.get("version", "missing"))
        raise ModelError(f"version {found}, this llamalloc reads {VERSION}; train again")
    if metadata.get("classes") != ",".join(contracts.class_names()):
        found = shown(metadata.get("classes", ""))
        raise ModelError(f"its lifetime classes ({found}) differ from ours; train a new model")


def _vocabulary(text: bytes) -> tuple[str, ...]:
    try:
        words = text.decode().split("\n")
    except UnicodeDecodeError as fault:
        raise ModelError("vocabulary: it is not UTF-8") from fault
    if len(words) > MAX_VOCABULARY:
        raise ModelError(f"vocabulary: {len(words)} tokens, the limit is {MAX_VOCABULARY}")
    if "" in words:
        raise ModelError(f"vocabulary: line {words.index('')} is empty")
    if words[0] != tokens.UNKNOWN:
        raise ModelError(f"vocabulary: line 0 is not {tokens.UNKNOWN}")
    seen: dict[str, int] = {}
    for line, word in enumerate(words):
        if seen.setdefault(word, line) != line:
            raise ModelError(f"vocabulary: lines {seen[word]} and {line} are equal")
    if words[1:2] != [tokens.SEPARATOR]:
        raise ModelError(f"vocabulary: line 1 is not {tokens.SEPARATOR}")
    return tuple(words)


def _check_weights(tensors: dict[str, np.ndarray], words: int) -> None:
    """E and D from the scale of depths, H from the dense kernel's rows; the others must follow."""
    depths, width = tensors["depth_scale"].shape
    hidden, classes = tensors["dense_kernel"].shape[0], len(contracts.class_names())
    _check_width("embedding", width, MAX_WIDTH)
    _check_width("depth", depths, tokens.MAX_FRAMES)
    _check_width("hidden", hidden, MAX_WIDTH)
    _check_shape(tensors, "embedding", words, width)
    _check_shape(tensors, "hidden_kernel", width, hidden)
    _check_shape(tensors, "size_bias", SIZE_ROWS, hidden)
    _check_shape(tensors, "dense_kernel", hidden, classes)
    _check_shape(tensors, "dense_bias", classes)
    for name, value in tensors.items():
        if value.dtype == np.float32:
            _check_each(name, np.isfinite(value), "is not a finite number")


def _check_width(what: str, width: int, most: int) -> None:
    if not 1 <= width <= most:
        raise ModelError(f"{what} width {width}, the limits are 1 and {most}")


def _check_shape(tensors: dict[str, np.ndarray], name: str, rows: int, columns: int = 1) -> None:
    have = (*tensors[name].shape, 1)[:2]
    if have != (rows, columns):
        found = " x ".join(map(str, have))
        raise ModelError(f"tensor `{name}` is {found}, not {rows} x {columns}")


def _check_each(name: str, good: np.ndarray, fault: str) -> None:
    if not good.all():
        raise ModelError(f"tensor `{name}`: element {int(np.argmin(good.ravel()))} {fault}")


def _check_evidence(tensors: dict[str, np.ndarray]) -> None:
    if len(tensors["builds"]) > MAX_BUILDS:
        raise ModelError(f"more than {MAX_BUILDS} builds")
    _check_table(tensors, "exact")
    _check_table(tensors, "name")
    for name, count in (("table_trust", 2), ("prior_trust", 4), ("network_trust", 4)):
        _check_shape(tensors, name, count)
        trust = tensors[name]
        share = (trust == NOT_MEASURED) | ((trust >= 0) & (trust <= 1))
        _check_each(name, share, "is neither a share nor -1")


def _check_table(tensors: dict[str, np.ndarray], table: str) -> None:
    keys, answers = tensors[f"{table}_keys"], tensors[f"{table}_answers"]
    _check_shape(tensors, f"{table}_answers", len(keys), answers.ndim)
    _check_shape(tensors, f"{table}_samples", len(keys))
    if len(keys) > MAX_NODES:
        raise ModelError(f"tensor `{table}_keys` has {len(keys)} keys, the limit is {MAX_NODES}")
    ascends = np.concatenate([[True], keys[1:] > keys[:-1]])
    _check_each(f"{table}_keys", ascends, "does not ascend")
    rows = answers.reshape(len(keys), answers.ndim)
    known = rows < len(contracts.class_names())
    known[:, 0] |= (rows[:, 0] == OPEN) | (rows[:, 0] == DEEPER)
    _check_each(f"{table}_answers", known, "is no answer")


def _check_equal(wrote: Model, found: Model) -> None:
    same = all(np.array_equal(a, b) for a, b in zip(wrote.weights, found.weights, strict=True))
    same &= all(map(np.array_equal, wrote.evidence, found.evidence))
    same &= wrote.programs == found.programs and wrote.gate == found.gate
    if not same or wrote.vocabulary != found.vocabulary or wrote.rule != found.rule:
        raise ModelError("the model did not read back as it was written; is the disk sound?")
