#!/usr/bin/env python3
"""mkimages.py DIR PARENT UPTIME [FILE:LAYOUT START:PAGES:FLAGS...]...

Makes one level of CRIU images, byte by byte. PARENT is the text of its link, or
"-". FILE is the name of a pagemap without ".img", LAYOUT 1 (up to CRIU 4.1) or 2.
FLAGS: 4 present, 1 in the parent. "dump" among the arguments adds a process tree.
A page holds its address and UPTIME, over and over.
"""
import os
import struct
import sys


def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def message(*fields):
    body = b"".join(varint(number << 3) + varint(value) for number, value in fields)
    return struct.pack("<I", len(body)) + body


def entry(start, pages, flags, layout):
    if layout == 1:
        return message((1, start), (2, pages), (4, flags))
    return message((1, start), (2, 0), (4, flags), (5, pages))


def main(path, parent, uptime, *rest):
    os.mkdir(path)

    def put(name, data):
        with open(os.path.join(path, name), "wb") as f:
            f.write(data)

    put("inventory.img", struct.pack("<I", 0x58313116) + message((1, 1), (8, int(uptime))))
    if parent != "-":
        os.symlink(parent, os.path.join(path, "parent"))
    maps = []
    for word in rest:
        if word == "dump":
            put("pstree.img", b"")
        elif word.count(":") == 1:
            name, layout = word.split(":")
            maps.append((name, int(layout), []))
        else:
            start, pages, flags = (int(n, 0) for n in word.split(":"))
            maps[-1][2].append((start, pages, flags))
    for pages_id, (name, layout, entries) in enumerate(maps, 1):
        put(name + ".img", struct.pack("<II", 0x54564319, 0x56084025) + message((1, pages_id))
            + b"".join(entry(*e, layout) for e in entries))
        put("pages-%d.img" % pages_id, b"".join(
            struct.pack("<QQ", start + 4096 * i, int(uptime)) * 256
            for start, pages, flags in entries if flags & 4 for i in range(pages)))


main(*sys.argv[1:])
