"""memcached_load.py SOCKET: write 4,096 values of 16 KiB round and round, reading
back one in eight, until there is a file "stop"; then read all of them."""
import os
import socket
import sys

KEYS, BYTES = 4096, 16384

memcached = socket.socket(socket.AF_UNIX)
memcached.connect(sys.argv[1])
answers = memcached.makefile("rb")
stored = [None] * KEYS


def value(key, number):
    return (b"%d:%d;" % (key, number) * BYTES)[:BYTES]


def write(key, number):
    memcached.sendall(b"set key%d 0 0 %d\r\n%s\r\n" % (key, BYTES, value(key, number)))
    if answers.readline() != b"STORED\r\n":
        sys.exit("key %d: not stored" % key)
    stored[key] = number


def check(key):
    memcached.sendall(b"get key%d\r\n" % key)
    head = answers.readline()
    if not head.startswith(b"VALUE"):
        sys.exit("key %d: lost" % key)
    if answers.read(BYTES + 7)[:BYTES] != value(key, stored[key]):
        sys.exit("key %d: another value" % key)


n = 0
while not os.path.exists("stop"):
    for _ in range(512):
        write(n % KEYS, n)
        if n % 8 == 0:
            check(n * 7919 % min(n + 1, KEYS))
        n += 1
    if n == KEYS:
        print("filled", flush=True)
for k in range(min(n, KEYS)):
    check(k)
print(n, "values written, all right")
