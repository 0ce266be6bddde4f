"""Payloads made by Google's protobuf library, and what the reader must say to each.

Prints a line for each vector that went wrong; usage: vectors.py DECODE PROTO_DIR.
PROTO_DIR holds the Python classes that protoc made of the .proto files.
"""
import json
import random
import struct
import subprocess
import sys
import warnings

warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[2])
from google.protobuf import json_format  # noqa: E402
from opentelemetry.proto.processcontext.v1development import process_context_pb2  # noqa: E402

Context = process_context_pb2.ProcessContext
checked = refused = 0
failures = []


def decode(payload):
    done = subprocess.run([sys.argv[1]], input=payload, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        failures.append(f"decode ended with {done.returncode} on {payload.hex()}")
    return json.loads(done.stdout) if done.returncode == 0 else None


def value_json(value):
    kind = value.WhichOneof("value")
    if kind is None or kind == "string_value_strindex":
        return {}
    if kind == "array_value":
        return {"arrayValue": {"values": [value_json(v) for v in value.array_value.values]}}
    if kind == "kvlist_value":
        return {"kvlistValue": {"values": [attr_json(a) for a in value.kvlist_value.values]}}
    return json_format.MessageToDict(value)


def attr_json(attr):
    return {"key": attr.key, "value": value_json(attr.value)}


def context_json(context):
    return {"resource": {"attributes": [attr_json(a) for a in context.resource.attributes]},
            "attributes": [attr_json(a) for a in context.attributes]}


def compare(payload, name):
    """The reader must take what Google's parser takes, and read the same in it."""
    global checked, refused
    checked += 1
    context = Context()
    try:
        # at a group's end outside of a group, and at tag 0, it stops without an
        # error: then it does not reach a field that is put behind
        whole = context.ParseFromString(payload + b"\x78\x01") == len(payload) + 2
        expected = context_json(context) if whole else None
    except Exception:  # pylint: disable=broad-except
        expected = None
    # what is ours: a NUL in a string is refused
    if expected is not None and "\\u0000" in json.dumps(expected):
        expected = None
    refused += expected is None
    got = decode(payload)
    if got != expected:
        failures.append(f"{name}: expected {expected}, got {got}, payload {payload.hex()}")


def fill(value, rng, depth):
    kind = rng.randrange(9 if depth < 4 else 7)
    if kind == 0:
        value.string_value = "".join(rng.choice("aZ \u00e4\u20ac\U0001f41f\"\\\n\x7f") for _ in range(rng.randrange(9)))
    elif kind == 1:
        value.bool_value = rng.random() < 0.5
    elif kind == 2:
        value.int_value = rng.choice([0, -1, 2**63 - 1, -2**63, rng.getrandbits(40)])
    elif kind == 3:
        value.double_value = rng.choice([0.0, -0.5, float("inf"), float("-inf"), float("nan"), 1e300])
    elif kind == 4:
        value.bytes_value = bytes(rng.randrange(256) for _ in range(rng.randrange(9)))
    elif kind == 5:
        value.string_value_strindex = rng.randrange(100)
    elif kind == 7:
        value.array_value.SetInParent()
        for _ in range(rng.randrange(4)):
            fill(value.array_value.values.add(), rng, depth + 1)
    elif kind == 8:
        value.kvlist_value.SetInParent()
        for _ in range(rng.randrange(4)):
            add(value.kvlist_value.values, rng, depth + 1)


def add(attributes, rng, depth):
    attr = attributes.add()
    attr.key = "".join(rng.choice("abc.\u00fc") for _ in range(rng.randrange(6)))
    if rng.random() < 0.9:
        fill(attr.value, rng, depth)
    if rng.random() < 0.1:
        attr.key_strindex = rng.randrange(100)


def some_context(rng):
    context = Context()
    for _ in range(rng.randrange(5)):
        add(context.resource.attributes, rng, 0)
    for _ in range(rng.randrange(3)):
        add(context.attributes, rng, 0)
    if rng.random() < 0.2:
        context.resource.dropped_attributes_count = rng.randrange(2**32)
    if rng.random() < 0.2:
        ref = context.resource.entity_refs.add(schema_url="s", type="t")
        ref.id_keys.append("k")
    return context


def damaged(payload, rng):
    data = bytearray(payload)
    for _ in range(rng.randrange(1, 4)):
        if not data:
            break
        at = rng.randrange(len(data))
        how = rng.randrange(3)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at]
        else:
            data.insert(at, rng.randrange(256))
    return bytes(data)


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def main():
    rng = random.Random(4719)
    for i in range(150):
        compare(some_context(rng).SerializeToString(), f"context {i}")
    for i in range(350):
        compare(damaged(some_context(rng).SerializeToString(), rng), f"damaged {i}")
    for depth in (10, 47, 48, 49, 50, 200):
        value = b""
        for _ in range(depth):
            value = field(5, field(1, value))
        compare(field(2, field(1, b"k") + field(2, value)), f"{depth} nested arrays")
    good = some_context(rng).SerializeToString()
    for extra in (b"\x1b\x1c", b"\x1b\x08\x05\x1c", b"\x0b\x0c", b"\x08\x05", b"\x78\x01",
                  b"\x7d" + struct.pack("<I", 7), b"\x1b", b"\x1c", b"\x1e"):
        compare(good + extra, f"extra {extra.hex()}")
    print("\n".join(failures), end="")
    print(f"{checked} vectors, {refused} of them refused", file=sys.stderr)
    sys.exit(bool(failures))


main()
