#!/usr/bin/env python3
"""The table of HDFS-1081: what getBlockLocations of a whole file costs the server, with block tokens and without. See
README.md."""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "interop"))
import struct  # noqa: E402

from apache import Apache  # noqa: E402
from others import Native  # noqa: E402
from rawrpc import Connection, message  # noqa: E402
from roles import Roles  # noqa: E402
from store import address  # noqa: E402

BLOCK_LEN = 1024
TOKENS = {"dfs.block.access.token.enable": "true"}
SMALL_BLOCKS = {"dfs.namenode.fs-limits.min-block-size": "512", "dfs.namenode.fs-limits.max-blocks-per-file": "100000"}



class Levada(Roles):
    """With blocks as short as those of the other side."""

    def __init__(self, directory: pathlib.Path, **settings):
        super().__init__(directory, block_len_min=512, **settings)
        self.pids = {"meta": [self.processes["meta"].pid]}


SERVERS = {
    "levada": lambda d: Levada(d),
    "levada-tokens": lambda d: Levada(d, block_tokens="true"),
    "hdfs": lambda d: Apache(d, names=SMALL_BLOCKS),
    "hdfs-tokens": lambda d: Apache(d, settings=TOKENS, names={**SMALL_BLOCKS, **TOKENS}),
}
# Answers that have not been read. A long one fills the sockets' buffers alone.
UNDER_WAY = 8
WHOLE_S = 5


def cpu(pid: int) -> float:
    """Seconds, to the nanosecond: of all threads that live."""
    spent = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            spent += int((thread / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return spent / 1e9


def skim(connection, scratch: bytearray) -> int:
    """Takes an answer and looks at nothing but its length."""
    taken, length = 0, struct.unpack(">i", connection._exactly(4))[0]
    while taken < length:
        got = connection.socket.recv_into(memoryview(scratch)[: min(length - taken, len(scratch))])
        if got == 0:
            raise ConnectionError("closed")
        taken += got
    return length


def ask(connection, path: str, count: int, scratch: bytearray) -> int:
    """Asks `count` times for all blocks of a file. Bytes of one answer."""
    request, length = message((1, path), (2, 0), (3, (1 << 62))), 0
    for number in range(count + UNDER_WAY):
        if number < count:
            connection.send(number, "getBlockLocations", request)
        if number >= UNDER_WAY:
            length = skim(connection, scratch)
    return length


def check(connection, path: str, blocks: int):
    """That the answer is what it should be."""
    from rawrpc import fields

    answer = connection.call(0, "getBlockLocations", message((1, path), (2, 0), (3, (1 << 62))))
    assert answer.status == 0, answer.text
    located = fields(fields(answer.body)[1][0])
    assert len(located[2]) == blocks, f"{len(located[2])} blocks"
    tokens = {fields(fields(block)[5][0])[2][0] != b"" for block in located[2]}
    assert len(tokens) == 1
    nodes = [len(fields(block)[3]) for block in located[2]]
    return tokens.pop(), nodes.count(3)


def check_whole(name: str, connection, path: str, blocks: int):
    """Apache HDFS lacks some replicas of blocks as short as these for hours; that makes its answers cheaper, and is
    told."""
    until = time.monotonic() + WHOLE_S
    while True:
        has_tokens, whole = check(connection, path, blocks)
        assert has_tokens == name.endswith("-tokens"), name
        if whole == blocks:
            return
        if time.monotonic() > until:
            break
        time.sleep(1)
    print(f"{name}: {whole} of {blocks} blocks have three locations", flush=True)
    assert name.startswith("hdfs")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default=",".join(SERVERS))
    parser.add_argument("--blocks", default="1,10,100,1000,10000", help="of the files")
    parser.add_argument(
        "--located", type=int, default=100_000, help="blocks in all answers of one round; at most 5,000 calls"
    )
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    asked = parser.parse_args()
    sizes, names = [int(text) for text in asked.blocks.split(",")], asked.servers.split(",")
    found = {(name, blocks): [] for name in names for blocks in sizes}
    lengths, stores = {}, {}
    with tempfile.TemporaryDirectory(prefix="levada-locations-") as directory:
        directory = pathlib.Path(directory)
        try:
            for name in names:
                home = directory / name
                if name.startswith("hdfs"):
                    home.mkdir()
                stores[name] = SERVERS[name](home)
                native, local = Native(stores[name].fs, "root"), directory / "bytes"
                for blocks in sizes:
                    local.write_bytes(bytes(BLOCK_LEN * blocks))
                    native.call("put", path=f"/of-{blocks}", local=str(local), block=BLOCK_LEN, replication=3)
                native.stop()
            scratch = bytearray(1 << 20)
            time.sleep(5)
            for name, store in stores.items():
                with Connection(address(store.fs)) as connection:
                    connection.socket.settimeout(60)
                    for blocks in sizes:
                        check_whole(name, connection, f"/of-{blocks}", blocks)
            for rep in range(asked.reps + 1):
                for blocks in sizes:
                    count = max(3, min(5000, asked.located // blocks))
                    for name in names if rep % 2 else names[::-1]:
                        store = stores[name]
                        pid = store.pids["meta"][0]
                        with Connection(address(store.fs)) as connection:
                            connection.socket.settimeout(60)
                            ask(connection, f"/of-{blocks}", 2, scratch)
                            before = cpu(pid)
                            lengths[name, blocks] = ask(connection, f"/of-{blocks}", count, scratch)
                            spent = cpu(pid) - before
                        if rep:  # the first round warms up
                            found[name, blocks].append(1e6 * spent / count)
        finally:
            for store in stores.values():
                store.stop()
    print("| blocks | " + " | ".join(f"{name}: µs a call (bytes a block)" for name in names) + " |")
    print("|" + "---|" * (len(names) + 1))
    for blocks in sizes:
        cells = [
            f"{statistics.median(found[name, blocks]):.1f} "
            f"[{min(found[name, blocks]):.1f}–{max(found[name, blocks]):.1f}]"
            f" ({lengths[name, blocks] / blocks:.0f})"
            for name in names
        ]
        print(f"| {blocks} | " + " | ".join(cells) + " |")
    for mine, other in [("levada-tokens", "levada"), ("hdfs-tokens", "hdfs"), ("levada", "hdfs")]:
        if mine in names and other in names:
            ratios = [statistics.median(a / b for a, b in zip(found[mine, n], found[other, n])) for n in sizes]
            print(f"{mine} ÷ {other}, medians of rounds: " + ", ".join(f"{n}: {r:.2f}" for n, r in zip(sizes, ratios)))
    if asked.json:
        rows = [{"server": s, "blocks": b, "us": us, "bytes": lengths[s, b]} for (s, b), us in found.items()]
        asked.json.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
