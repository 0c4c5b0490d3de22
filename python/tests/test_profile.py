# SPDX-License-Identifier: Apache-2.0
"""Profiles: golden bytes, what is refused and how it is said, and no crash on any damage."""

import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import golden_profile, profile_writer, synthetic

from llamalloc.formats import contracts, profile
from llamalloc.formats.learned_state import NO_FIGURE, Gate, GateWaste
from llamalloc.formats.pprof_proto import ProfileMessage
from llamalloc.formats.profile import ProfileError

GOLDEN = contracts.folder() / "golden" / "profile_v1.pb.gz"
RECORD = "llamalloc record -o p.pb.gz -- ./server"


@pytest.fixture
def message():
    return profile_writer.message_of(golden_profile.PROFILE)


def refusal(path) -> str:
    with pytest.raises(ProfileError) as caught:
        profile.read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text


def test_golden_bytes_hold_the_golden_contents():
    found = profile.read(GOLDEN)
    assert golden_profile.as_json(found) == json.loads(
        GOLDEN.with_name("profile_v1.json").read_text()
    )
    assert found.contexts == golden_profile.PROFILE.contexts


def test_what_was_written_reads_back(tmp_path):
    wrote = synthetic.profile(contexts=30)
    found = profile.read(profile_writer.write(wrote, tmp_path / "server.pb.gz"))
    assert found.contexts == wrote.contexts
    assert (found.program, found.exiting, found.duration_ns) == ("server", True, 60 * 10**9)


def test_what_was_measured_of_the_load_reads_back(tmp_path):
    gate = Gate(blind=GateWaste(2, NO_FIGURE, 260, 400, 1650), peak=512)
    wrote = replace(synthetic.profile(contexts=3), gate=gate)
    assert profile.read(profile_writer.write(wrote, tmp_path / "p.pb.gz")).gate == gate
    assert profile.read(GOLDEN).gate == Gate(), "older ones tell nothing"


def test_a_profile_that_is_not_compressed_is_read_too(tmp_path, message):
    path = tmp_path / "plain.pb"
    path.write_bytes(message.SerializeToString())
    assert profile.read(path).contexts == golden_profile.PROFILE.contexts


def test_inlined_lines_become_frames_innermost_first(tmp_path, message):
    location = message.location[0]
    location.line.add(function_id=message.function[1].id)
    found = profile.read(profile_writer.write_message(message, tmp_path / "p.pb.gz"))
    assert found.contexts[0].frames[:3] == ("zmalloc", "sdsnewlen", "sdsnewlen")


def test_a_name_that_is_not_utf8_is_read_with_replacements(tmp_path, message):
    index = list(message.string_table).index(b"zmalloc")
    message.string_table[index] = b"z\xffalloc"
    found = profile.read(profile_writer.write_message(message, tmp_path / "p.pb.gz"))
    assert found.contexts[0].frames[0] == "z\ufffdalloc"


def test_missing_file(tmp_path):
    assert "cannot be read (No such file" in refusal(tmp_path / "none.pb.gz")


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"hello, world\n", "not a pprof profile"),
        (b"\x1f\x8b\x08", "damaged gzip data"),
        (gzip.compress(b"\xff" * 99, mtime=0), "not a pprof profile"),
    ],
)
def test_not_a_profile(tmp_path, data, cause):
    path = tmp_path / "p.pb.gz"
    path.write_bytes(data)
    text = refusal(path)
    assert cause in text and RECORD in text


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damaged_gzip(tmp_path, damage):
    data = bytearray(GOLDEN.read_bytes())
    if damage == "truncated":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 0xFF
    path = tmp_path / "p.pb.gz"
    path.write_bytes(data)
    assert "damaged" in refusal(path)


def test_foreign_heap_profile(tmp_path, message):
    strings = {text: i for i, text in enumerate([b"", b"alloc_objects", b"inuse_space", b"count"])}
    foreign = ProfileMessage(string_table=list(strings))
    for kind in (b"alloc_objects", b"inuse_space"):
        foreign.sample_type.add(type=strings[kind], unit=strings[b"count"])
    text = refusal(profile_writer.write_message(foreign, tmp_path / "go.pb.gz"))
    assert "a pprof profile of alloc_objects, inuse_space, not of lifetimes" in text
    assert RECORD in text


def test_lifetime_profile_of_another_recorder(tmp_path, message):
    del message.comment[:]
    text = refusal(profile_writer.write_message(message, tmp_path / "p.pb.gz"))
    assert "without our histograms" in text


def test_another_version(tmp_path, message):
    message.string_table[message.comment[0]] = b"llamalloc-profile 2 exit=1"
    text = refusal(profile_writer.write_message(message, tmp_path / "p.pb.gz"))
    assert "version 2; this program reads version 1" in text


def test_no_samples(tmp_path, message):
    del message.sample[:]
    text = refusal(profile_writer.write_message(message, tmp_path / "p.pb.gz"))
    assert "holds no samples" in text and "more finely: --interval 4KiB" in text


def test_missing_labels(tmp_path, message):
    del message.sample[1].label[:]
    assert "lacks its labels" in refusal(
        profile_writer.write_message(message, tmp_path / "p.pb.gz")
    )


def test_indices_that_lead_nowhere(tmp_path, message):
    def with_damage(damage):
        broken = ProfileMessage.FromString(message.SerializeToString())
        damage(broken)
        return refusal(profile_writer.write_message(broken, tmp_path / "p.pb.gz"))

    assert "damaged" in with_damage(lambda m: m.sample[0].location_id.append(999))
    assert "damaged" in with_damage(lambda m: setattr(m.function[0], "name", 10**6))
    assert "damaged" in with_damage(lambda m: setattr(m.function[0], "name", -1))
    assert "damaged" in with_damage(lambda m: setattr(m.function[0], "id", 77))
    assert "damaged" in with_damage(lambda m: m.sample[0].value.append(1))
    assert "damaged" in with_damage(lambda m: m.sample[0].value.__setitem__(0, -5))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_escapes_as_another_error(tmp_path, data):
    content = bytearray(gzip.decompress(GOLDEN.read_bytes()))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "p.pb.gz"
    path.write_bytes(content)
    try:
        profile.read(path)
    except ProfileError as error:
        assert RECORD in str(error) or "record for longer" in str(error)
