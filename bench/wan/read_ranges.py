"""Reads ranges that lie evenly in a file by one client:
`read_ranges.py WAY ADDRESS FILE LENGTH COUNT LEN`.

Prints a line of JSON: seconds of a cold open and read (connections, opening, ranges), of a second read by what is open
by then, and the CRC-32 of the ranges' bytes, one after the other. Modules are imported before the clock runs.
"""

import json
import os
import socket
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

from servers import GATEWAY_ROOT, META, NGINX, SENDER, XROOTD

# As many as an eager reader has under way that knows no better.
PARALLEL = 16


class XRootD:
    """`readv` with as many ranges as it takes, all of them at once."""

    port = XROOTD
    # XRootD's own limit for one `readv`.
    count_max = 1024

    def __init__(self, address: str, file: str, _length: int):
        from XRootD import client

        self.client, self.url = client, f"root://{address}:{self.port}//{file}"

    def open(self) -> None:
        self.file = self.client.File()
        status, _ = self.file.open(self.url)
        assert status.ok, status.message

    def read(self, ranges: list) -> list[bytes]:
        def ask(first: int) -> list[bytes]:
            status, answer = self.file.vector_read(chunks=ranges[first : first + self.count_max])
            assert status.ok, status.message
            return [chunk.buffer for chunk in answer.chunks]

        with ThreadPoolExecutor(PARALLEL) as pool:
            return [piece for some in pool.map(ask, range(0, len(ranges), self.count_max)) for piece in some]


class LevadaRoot(XRootD):
    """The same, by our gateway."""

    port = GATEWAY_ROOT
    count_max = 16384


class Nginx:
    """One request with all ranges, answered by `multipart/byteranges`."""

    def __init__(self, address: str, file: str, _length: int):
        import http.client

        self.connection, self.file = http.client.HTTPConnection(address, NGINX), file

    def open(self) -> None:
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, ranges: list) -> list[bytes]:
        asked = ",".join(f"{offset}-{offset + length - 1}" for offset, length in ranges)
        self.connection.request("GET", f"/{self.file}", headers={"Range": f"bytes={asked}"})
        answer = self.connection.getresponse()
        assert answer.status == 206, answer.status
        body, found, at = answer.read(), [], 0
        for _, length in ranges:
            at = body.index(b"\r\n\r\n", at) + 4
            found.append(body[at : at + length])
            at += length
        return found


class HdfsNative:
    """A read a range, some at a time."""

    def __init__(self, address: str, file: str, _length: int):
        import hdfs_native

        self.native, self.url, self.file = hdfs_native, f"hdfs://{address}:{META}", file

    def open(self) -> None:
        self.reader = self.native.Client(self.url).read(f"/{self.file}")

    def read(self, ranges: list) -> list[bytes]:
        with ThreadPoolExecutor(PARALLEL) as pool:
            return list(pool.map(lambda one: self.reader.read_range(*one), ranges))


class Levada:
    """The Python package, by fsspec's own call."""

    def __init__(self, address: str, file: str, _length: int):
        import levada

        self.fs, self.file = levada.LevadaFileSystem(address, META), f"/{file}"

    def open(self) -> None:
        pass

    def read(self, ranges: list) -> list[bytes]:
        starts, ends = zip(*((offset, offset + length) for offset, length in ranges))
        return self.fs.cat_ranges([self.file] * len(ranges), list(starts), list(ends))


class Plain:
    """As many bytes by TCP alone, on one connection, for a request that fits into one segment: what no protocol on one
    connection is faster than."""

    def __init__(self, address: str, _file: str, _length: int):
        self.address = address

    def open(self) -> None:
        self.connection = socket.create_connection((self.address, SENDER))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, ranges: list) -> list[bytes]:
        left = sum(length for _, length in ranges)
        self.connection.sendall(left.to_bytes(8, "big") + bytes(8))
        while left > 0:
            left -= len(self.connection.recv(min(left, 1 << 20)))
        return []


WAYS = {
    "levada-root": LevadaRoot,
    "xrootd": XRootD,
    "nginx": Nginx,
    "hdfs-native": HdfsNative,
    "levada-python": Levada,
    "tcp": Plain,
}


def main() -> None:
    way, address, file, length, count, range_len = sys.argv[1:]
    step = int(length) // int(count)
    ranges = [(place * step, int(range_len)) for place in range(int(count))]
    reader = WAYS[way](address, file, int(length))
    begun = time.monotonic()
    reader.open()
    pieces = reader.read(ranges)
    cold = time.monotonic() - begun
    again = reader.read(ranges)
    kept = time.monotonic() - begun - cold
    assert again == pieces
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    print(json.dumps({"cold_s": cold, "kept_s": kept, "crc": crc if pieces else None}))
    # Some of these clients take a turn-around or two to say good-bye.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
