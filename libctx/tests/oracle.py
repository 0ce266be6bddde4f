"""Decode a ProcessContext with Google's protobuf, independently of protobuf-c.

oracle.py GENERATED FILE: print resource and attributes of the payload in FILE,
one value a line; GENERATED is where protoc --python_out wrote.
"""
import sys

sys.path.insert(0, sys.argv[1])

from opentelemetry.proto.processcontext.v1development import (  # noqa: E402
    process_context_pb2,
)


def text(value):
    kind = value.WhichOneof("value")
    if kind is None:
        return "empty"
    if kind == "array_value":
        return "[" + " ".join(text(v) for v in value.array_value.values) + "]"
    if kind == "kvlist_value":
        return "{" + " ".join(k.key + "=" + text(k.value) for k in value.kvlist_value.values) + "}"
    return kind.replace("_value", "") + ":" + ascii(getattr(value, kind))


def show(where, attributes):
    for a in attributes:
        assert a.HasField("value"), a.key
        assert a.key_strindex == 0, a.key
        print(where, a.key, text(a.value))


context = process_context_pb2.ProcessContext()
with open(sys.argv[2], "rb") as payload:
    data = payload.read()
assert context.ParseFromString(data) == len(data)
assert not context.UnknownFields()
if not context.HasField("resource"):
    print("no resource")
show("resource", context.resource.attributes)
show("attribute", context.attributes)
