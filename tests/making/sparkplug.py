"""Sparkplug B payloads, made by protobuf itself from what the specification says about their fields."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "uint64": _FIELD.TYPE_UINT64, "uint32": _FIELD.TYPE_UINT32, "bool": _FIELD.TYPE_BOOL, "float": _FIELD.TYPE_FLOAT,
    "double": _FIELD.TYPE_DOUBLE, "string": _FIELD.TYPE_STRING, "bytes": _FIELD.TYPE_BYTES, "Metric": _FIELD.TYPE_MESSAGE,
}  # fmt: skip

_METRIC = {
    "name": (1, "string"), "alias": (2, "uint64"), "timestamp": (3, "uint64"), "datatype": (4, "uint32"),
    "is_historical": (5, "bool"), "is_transient": (6, "bool"), "is_null": (7, "bool"), "metadata": (8, "bytes"),
    "int_value": (10, "uint32"), "long_value": (11, "uint64"), "float_value": (12, "float"), "double_value": (13, "double"),
    "boolean_value": (14, "bool"), "string_value": (15, "string"), "bytes_value": (16, "bytes"),
}  # fmt: skip
_PAYLOAD = {
    "timestamp": (1, "uint64"), "metrics": (2, "Metric"), "seq": (3, "uint64"), "uuid": (4, "string"), "body": (5, "bytes"),
}  # fmt: skip


def payload(metrics: list[dict[str, Any]], **fields: Any) -> bytes:
    """The bytes of a payload: ``payload([{"name": "a", "int_value": 1}], timestamp=0)``."""
    made: bytes = _message("Payload")(metrics=metrics, **fields).SerializeToString()
    return made


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"sparkplug.{name}"))


def _described() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="sparkplug.proto", package="sparkplug", syntax="proto2")
    for name, fields in (("Metric", _METRIC), ("Payload", _PAYLOAD)):
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = _FIELD.LABEL_REPEATED if kind == "Metric" else _FIELD.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, type=_KINDS[kind], label=label)
            if kind == "Metric":
                added.type_name = ".sparkplug.Metric"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_pool = _described()
