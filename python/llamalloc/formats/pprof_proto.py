# SPDX-License-Identifier: Apache-2.0
"""pprof's profile.proto as a message class, built from the table below at import.

Field numbers are those of https://github.com/google/pprof/blob/main/proto/profile.proto, restated
here instead of generated code: no compiler at build time, nothing tied to one protobuf release.
Fields that we neither read nor write are left out; protobuf skips them. `string_table` is declared
as bytes (the same on the wire), so that a name that is not UTF-8 cannot make parsing fail.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
}

# message: (number, name, type); a type in [] is repeated (packed where it is a number).
_MESSAGES = {
    "ValueType": [(1, "type", "int64"), (2, "unit", "int64")],
    "Label": [
        (1, "key", "int64"),
        (2, "str", "int64"),
        (3, "num", "int64"),
        (4, "num_unit", "int64"),
    ],
    "Sample": [(1, "location_id", "[uint64]"), (2, "value", "[int64]"), (3, "label", "[Label]")],
    "Mapping": [
        (1, "id", "uint64"),
        (2, "memory_start", "uint64"),
        (3, "memory_limit", "uint64"),
        (4, "file_offset", "uint64"),
        (5, "filename", "int64"),
        (6, "build_id", "int64"),
        (7, "has_functions", "bool"),
    ],
    "Line": [(1, "function_id", "uint64"), (2, "line", "int64")],
    "Location": [
        (1, "id", "uint64"),
        (2, "mapping_id", "uint64"),
        (3, "address", "uint64"),
        (4, "line", "[Line]"),
    ],
    "Function": [(1, "id", "uint64"), (2, "name", "int64"), (3, "system_name", "int64")],
    "Profile": [
        (1, "sample_type", "[ValueType]"),
        (2, "sample", "[Sample]"),
        (3, "mapping", "[Mapping]"),
        (4, "location", "[Location]"),
        (5, "function", "[Function]"),
        (6, "string_table", "[bytes]"),
        (9, "time_nanos", "int64"),
        (10, "duration_nanos", "int64"),
        (11, "period_type", "ValueType"),
        (12, "period", "int64"),
        (13, "comment", "[int64]"),
        (14, "default_sample_type", "int64"),
    ],
}


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str) -> None:
    repeated, kind = kind.startswith("["), kind.strip("[]")
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    field.type = _SCALARS.get(kind, _Field.TYPE_MESSAGE)
    if field.type == _Field.TYPE_MESSAGE:
        field.type_name = f".llamalloc.pprof.{kind}"
    elif repeated and kind != "bytes":
        field.options.packed = True


def _profile_class() -> type:
    file = descriptor_pb2.FileDescriptorProto(
        name="llamalloc/pprof.proto", package="llamalloc.pprof", syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for number, name, kind in fields:
            _add_field(message, number, name, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("llamalloc.pprof.Profile"))


ProfileMessage = _profile_class()
"""The message class of perftools.profiles.Profile: ParseFromString, SerializeToString."""
