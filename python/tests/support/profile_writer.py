# SPDX-License-Identifier: Apache-2.0
"""Writes profiles per contracts/profile_format.md: for tests, and for the golden profile.

Stands apart from llamalloc.profile, which it must not share faults with: only the message class
and the histogram text are common.
"""

import gzip
from pathlib import Path

from llamalloc.formats import histogram
from llamalloc.formats.learned_state import Gate, text_of_gate
from llamalloc.formats.pprof_proto import ProfileMessage
from llamalloc.formats.profile import NUMBER_LABELS, SAMPLE_TYPES, Context, Profile

_UNITS = {"bytes": "bytes", "sampled": "count", "same_thread": "count", "same_cpu": "count"}
_UNITS["peak_bytes"] = "bytes"


class _Builder:
    def __init__(self, profile: Profile):
        self.profile = profile
        self.message = ProfileMessage()
        self.strings = {"": 0}
        self.locations: dict[str, int] = {}

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def location(self, name: str) -> int:
        if name in self.locations:
            return self.locations[name]
        number = self.locations[name] = len(self.locations) + 1
        index = self.string(name)
        self.message.function.add(id=number, name=index, system_name=index)
        entry = self.message.location.add(id=number, mapping_id=1, address=0x401000 + 16 * number)
        entry.line.add(function_id=number)
        return number

    def label_text(self, sample, key: str, text: str) -> None:
        if text:
            sample.label.add(key=self.string(key), str=self.string(text))

    def context(self, context: Context) -> None:
        sample = self.message.sample.add()
        sample.location_id.extend(self.location(name) for name in context.frames)
        sample.value.extend(
            [
                context.allocated_objects,
                context.allocated_bytes,
                context.deallocated_objects,
                context.deallocated_bytes,
                context.censored_objects,
                context.censored_bytes,
            ]
        )
        for key in (key for key in NUMBER_LABELS if key in context.numbers):
            unit = self.string(_UNITS.get(key, "nanoseconds"))
            sample.label.add(key=self.string(key), num=context.numbers[key], num_unit=unit)
        self.label_text(sample, "lifetimes", histogram.render(context.lifetimes))
        self.label_text(sample, "censored_ages", histogram.render(context.censored_ages))
        self.label_text(sample, "live", histogram.render(context.live))

    def header(self) -> None:
        message, profile = self.message, self.profile
        for kind, unit in SAMPLE_TYPES:
            message.sample_type.add(type=self.string(kind), unit=self.string(unit))
        message.default_sample_type = self.string("allocated_space")
        message.period_type.type = self.string("space")
        message.period_type.unit = self.string("bytes")
        message.period = profile.sample_interval
        message.time_nanos = profile.time_ns
        message.duration_nanos = profile.duration_ns
        message.comment.append(self.string(f"llamalloc-profile 1 exit={int(profile.exiting)}"))
        for kind, moments in (("peak", [profile.peak]), ("timeline", profile.timeline)):
            words = [f"{m.at_ns}:{m.bytes}" for m in moments if m is not None]
            if words:
                message.comment.append(self.string(f"llamalloc-{kind} {' '.join(words)}"))
        if profile.gate != Gate():
            message.comment.append(self.string(f"llamalloc-gate {text_of_gate(profile.gate)}"))
        file = self.string(f"/usr/bin/{profile.program}")
        build_id = self.string("00112233445566778899aabbccddeeff00112233")
        message.mapping.add(
            id=1, memory_start=0x400000, memory_limit=0x800000, filename=file, build_id=build_id,
            has_functions=True,
        )  # fmt: skip

    def build(self) -> ProfileMessage:
        self.header()
        for context in self.profile.contexts:
            self.context(context)
        self.message.string_table.extend(text.encode() for text in self.strings)
        return self.message


def message_of(profile: Profile) -> ProfileMessage:
    """The profile as a message, for a test to damage."""
    return _Builder(profile).build()


def write_message(message: ProfileMessage, path: Path) -> Path:
    """Gzips the message into `path`, bytes independent of the clock."""
    path.write_bytes(gzip.compress(message.SerializeToString(), mtime=0))
    return path


def write(profile: Profile, path: Path) -> Path:
    """Writes `profile` to `path`."""
    return write_message(message_of(profile), path)
