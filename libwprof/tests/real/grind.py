"""Rewrite 16 Mi numbers of 32 bits over and over: x = 1664525 x + 1013904223,
eight times, beginning with 0, 1, 2, ...; print their sum after each pass, until
there is a file "stop". Grind.java and grind.js do the same."""
import os

import numpy

N = 16 << 20

v = numpy.empty(N, dtype=numpy.uint32)
while True:
    v[:] = numpy.arange(N, dtype=numpy.uint32)
    for _ in range(8):
        v *= numpy.uint32(1664525)
        v += numpy.uint32(1013904223)
        garbage = v[::16].copy()
    print("pass", int(v.sum(dtype=numpy.uint64)) % 2**32, flush=True)
    if os.path.exists("stop"):
        break
print("done")
