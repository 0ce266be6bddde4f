"""silent_peers.py SOCKET: one peer that never says a word, and one that says what HTTP/2
begins with and no more, each until the server closes it. Prints for each what it was,
the seconds, and how many pings it was sent."""
import socket, sys, threading, time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
PING = 6


def pings(data):
    n = at = 0
    while at + 9 <= len(data):
        n += data[at + 3] == PING
        at += 9 + int.from_bytes(data[at : at + 3], "big")
    return n


def peer(name, words):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.settimeout(90)
    begun, data = time.monotonic(), b""
    s.sendall(words)
    try:
        while got := s.recv(65536):
            data += got
    except ConnectionResetError:
        pass
    print(name, "%.1f" % (time.monotonic() - begun), pings(data), flush=True)


peers = [threading.Thread(target=peer, args=a) for a in (("never", b""), ("no_more", PREFACE))]
for p in peers:
    p.start()
for p in peers:
    p.join()
