# SPDX-License-Identifier: Apache-2.0
"""Reads lifetime profiles: contracts/profile_format.md, the twin of src/profile/pprof_writer.cc.

    p.pb.gz -> gunzip -> profile.proto -> Profile(contexts=[Context(frames, bytes, lifetimes, ...)])

A file is hostile until read: every index is checked, every fault is one ProfileError that names
the file, the cause, and how to record a good profile.
"""

import gzip
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError

from llamalloc.formats import histogram, regular_file
from llamalloc.formats.histogram import Histogram
from llamalloc.formats.learned_state import Gate, code_key, gate_of_text, hash_build_id
from llamalloc.formats.pprof_proto import ProfileMessage

VERSION = "1"
COMMENT = "llamalloc-profile"
MODULE_COMMENT = "llamalloc-module"
PROGRAM_COMMENT = "llamalloc-program"
GATE_COMMENT = "llamalloc-gate"
PEAK_COMMENT = "llamalloc-peak"
TIMELINE_COMMENT = "llamalloc-timeline"
SAMPLE_TYPES = (
    ("allocated_objects", "count"),
    ("allocated_space", "bytes"),
    ("deallocated_objects", "count"),
    ("deallocated_space", "bytes"),
    ("censored_allocated_objects", "count"),
    ("censored_allocated_space", "bytes"),
)
NUMBER_LABELS = (
    "bytes",
    "sampled",
    "avg_lifetime",
    "stddev_lifetime",
    "min_lifetime",
    "max_lifetime",
    "same_thread",
    "same_cpu",
    "peak_bytes",
)
_MAX_FILE_BYTES = 1 << 30
_GZIP = b"\x1f\x8b"
_CURE = "record one with: llamalloc record -o p.pb.gz -- ./server"


class ProfileError(ValueError):
    """A profile that cannot be used. The message names the file, the cause and the cure."""

    def __init__(self, path: Path, cause: str, cure: str = _CURE):
        super().__init__(f"{path}: {cause}; {cure}")


@dataclass(frozen=True)
class Context:
    """One calling context: what was allocated from it and how long it lived.

    `frames` innermost first; `codes`: their numbers (learned_state.md, Keys), 0: unknown. Objects
    and bytes are estimates for the whole process; histograms count sampled objects. `numbers`
    holds the numeric labels that were present, lifetimes in ns.
    """

    frames: tuple[str, ...]
    bytes: int
    allocated_objects: int
    allocated_bytes: int
    deallocated_objects: int
    deallocated_bytes: int
    censored_objects: int
    censored_bytes: int
    lifetimes: Histogram = field(default_factory=dict)
    censored_ages: Histogram = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    tag: str = ""  # what the thread said it was doing
    live: dict[int, int] = field(default_factory=dict)  # point of Profile.timeline -> bytes
    codes: tuple[int, ...] = field(default=(), compare=False)

    @property
    def sampled(self) -> int:
        """How many objects were sampled, dead and alive."""
        return histogram.total(self.lifetimes) + histogram.total(self.censored_ages)

    @property
    def peak_bytes(self) -> int:
        """What it held at Profile.peak."""
        return self.numbers.get("peak_bytes", 0)


@dataclass(frozen=True)
class Moment:
    """Live bytes of the whole process at a time, in ns since sampling began."""

    at_ns: int
    bytes: int


@dataclass(frozen=True)
class Profile:
    """One recording of one process. Times in ns, `sample_interval` in bytes.

    `exiting`: the process was ending when the profile was written, so what still lived then was
    never freed. `program`: how it was called; without that the base name of the first mapping, or
    of the file. `build`: hash of its build-id, 0: unknown. `peak`: when most was live; `timeline`:
    moments in order. `gate`: what was measured of the load's high times and troughs. Older profiles
    have none of them.
    """

    path: Path
    program: str
    exiting: bool
    time_ns: int
    duration_ns: int
    sample_interval: int
    contexts: tuple[Context, ...]
    build: int = field(default=0, compare=False)
    peak: Moment | None = None
    timeline: tuple[Moment, ...] = ()
    gate: Gate = field(default_factory=Gate)


def read(path: Path | str) -> Profile:
    """The profile in file `path`. Raises ProfileError for any fault, a missing file included."""
    path = Path(path)
    message = _parse(path, _bytes_of(path))
    try:
        return _Reader(path, message).profile()
    except (IndexError, KeyError) as fault:
        raise ProfileError(
            path, f"damaged: it refers to {fault}, which it does not hold"
        ) from fault


def is_profile(path: Path) -> bool:
    """Whether the file is one of ours, good or not: it has the comment. Raises OSError."""
    with regular_file.opened(path) as stream:
        if stream.read(2) != _GZIP:
            return False
    try:
        data = _bytes_of(path)
    except ProfileError:
        return False
    return data[:1] == b"\x0a" and COMMENT.encode() in data


def _bytes_of(path: Path) -> bytes:
    """The file's contents, unpacked where they are gzip data."""
    try:
        with regular_file.opened(path) as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            with gzip.open(file) if packed else file as stream:
                data = stream.read(_MAX_FILE_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise ProfileError(path, f"damaged gzip data ({fault})") from fault
    except OSError as fault:
        raise ProfileError(path, f"cannot be read ({fault.strerror})") from fault
    if len(data) > _MAX_FILE_BYTES:
        raise ProfileError(path, "larger than 1 GiB when unpacked")
    return data


def _parse(path: Path, data: bytes) -> ProfileMessage:
    if not data:
        raise ProfileError(path, "the file is empty")
    try:
        return ProfileMessage.FromString(data)
    except DecodeError as fault:
        raise ProfileError(path, "not a pprof profile") from fault


class _Reader:
    """Resolves the indices of one parsed message."""

    def __init__(self, path: Path, message: ProfileMessage):
        self.path = path
        self.message = message
        self.strings = [text.decode("utf-8", "replace") for text in message.string_table] or [""]
        self.functions = {f.id: self._string(f.name) for f in message.function}
        self.locations = {location.id: self._names(location) for location in message.location}
        self.modules = {mapping.id: self._module(mapping) for mapping in message.mapping}
        self._correct_modules()
        self.codes = {location.id: self._code(location) for location in message.location}

    def profile(self) -> Profile:
        self._check_kind()
        message = self.message
        if not message.sample:
            cure = "record for longer, or more finely: --interval 4KiB (option sample_interval)"
            raise ProfileError(self.path, "it holds no samples", cure)
        contexts = tuple(self._context(sample) for sample in message.sample)
        return Profile(
            path=self.path,
            program=self._program(),
            exiting="exit=1" in self._comment().split(),
            time_ns=message.time_nanos,
            duration_ns=max(message.duration_nanos, 0),
            sample_interval=message.period,
            contexts=contexts,
            build=self.modules[message.mapping[0].id][0] if message.mapping else 0,
            peak=next(iter(self._moments(PEAK_COMMENT)), None),
            timeline=self._moments(TIMELINE_COMMENT),
            gate=gate_of_text(self._comment(GATE_COMMENT).partition(" ")[2]) or Gate(),
        )

    def _module(self, mapping) -> tuple[int, int]:
        """Hash of the build-id and lowest address."""
        text = self._string(mapping.build_id)
        is_hex = len(text) % 2 == 0 and all(digit in "0123456789abcdefABCDEF" for digit in text)
        build = hash_build_id(bytes.fromhex(text)) if is_hex else 0
        return build, max(mapping.memory_start - mapping.file_offset, 0)

    def _correct_modules(self) -> None:
        """What the profile says of modules whose figures do not follow from their mapping."""
        for index in self.message.comment:
            words = self._string(index).split()
            if words[:1] != [MODULE_COMMENT]:
                continue
            try:
                number, low, build = (int(word, 16) for word in words[1:])
            except ValueError as fault:
                raise ProfileError(self.path, f"damaged: {' '.join(words)[:80]}") from fault
            if number in self.modules:
                self.modules[number] = (build, low)

    def _code(self, location) -> int:
        build, low = self.modules.get(location.mapping_id, (0, 0))
        offset = location.address + 1 - low
        return code_key(build, offset) if build and 0 <= offset < 1 << 64 else 0

    def _check_kind(self) -> None:
        found = [(self._string(t.type), self._string(t.unit)) for t in self.message.sample_type]
        if not found:
            raise ProfileError(self.path, "not a pprof profile (no sample types)")
        if found != list(SAMPLE_TYPES):
            kinds = ", ".join(kind for kind, _ in found[:6])
            raise ProfileError(self.path, f"a pprof profile of {kinds}, not of lifetimes")
        words = self._comment().split()
        if not words:
            raise ProfileError(self.path, "a lifetime profile without our histograms")
        if words[1:2] != [VERSION]:
            cause = f"of version {' '.join(words[1:2])}; this program reads version {VERSION}"
            raise ProfileError(self.path, cause)

    def _comment(self, first: str = COMMENT) -> str:
        comments = [self._string(index) for index in self.message.comment]
        return next((text for text in comments if text.split()[:1] == [first]), "")

    def _moments(self, comment: str) -> tuple[Moment, ...]:
        """NS:BYTES, ascending."""
        words = [word.split(":") for word in self._comment(comment).split()[1:]]
        try:
            found = tuple(Moment(int(at), int(size)) for at, size in words)
        except ValueError as fault:
            raise ProfileError(self.path, f"damaged: {comment} is not NS:BYTES") from fault
        if any(m.at_ns < 0 or m.bytes < 0 for m in found) or list(found) != sorted(
            found, key=lambda m: m.at_ns
        ):
            raise ProfileError(self.path, f"damaged: {comment} does not ascend")
        return found

    def _program(self) -> str:
        if called := self._comment(PROGRAM_COMMENT).partition(" ")[2]:
            return called
        files = [self._string(mapping.filename) for mapping in self.message.mapping[:1]]
        return Path(files[0]).name if files and files[0] else self.path.name.split(".")[0]

    def _context(self, sample) -> Context:
        values = list(sample.value)
        if len(values) != len(SAMPLE_TYPES) or min(values) < 0:
            raise ProfileError(self.path, f"damaged: a sample has the values {values}")
        places = [(name, self.codes[location]) for location in sample.location_id
                  for name in self.locations[location]]  # fmt: skip
        frames, codes = zip(*places, strict=True) if places else ((), ())
        numbers, texts = self._labels(sample)
        if "bytes" not in numbers or not {"lifetimes", "censored_ages"} & texts.keys():
            raise ProfileError(self.path, "a sample lacks its labels `bytes` or `lifetimes`")
        return Context(
            tuple(frames),
            numbers["bytes"] % (1 << 64),
            *values,
            lifetimes=self._histogram(texts.get("lifetimes", "")),
            censored_ages=self._histogram(texts.get("censored_ages", "")),
            numbers=numbers,
            tag=texts.get("tag", ""),
            live=self._histogram(texts.get("live", "")),
            codes=codes,
        )

    def _labels(self, sample) -> tuple[dict[str, int], dict[str, str]]:
        numbers, texts = {}, {}
        for label in sample.label:
            key = self._string(label.key)
            if key in NUMBER_LABELS:
                numbers[key] = label.num
            else:
                texts[key] = self._string(label.str)
        return numbers, texts

    def _histogram(self, text: str) -> Histogram:
        try:
            return histogram.parse(text)
        except ValueError as fault:
            raise ProfileError(self.path, f"damaged: {fault}") from fault

    def _names(self, location) -> tuple[str, ...]:
        return tuple(self.functions[line.function_id] for line in location.line) or ("?",)

    def _string(self, index: int) -> str:
        if not 0 <= index < len(self.strings):
            raise IndexError(f"string {index}")
        return self.strings[index]
