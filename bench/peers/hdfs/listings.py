#!/usr/bin/env python3
"""The list attack of HADOOP-4797 against Levada and Apache HDFS: what large listings cost a server, and how long others
wait. See README.md."""

import argparse
import json
import multiprocessing
import os
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "interop"))
import crowd  # noqa: E402
from apache import Apache  # noqa: E402
from rawrpc import Connection, message, read_varint  # noqa: E402
from store import Store, address, memory  # noqa: E402

MB = 1e6
HZ = os.sysconf("SC_CLK_TCK")
# Connections of one attacking process: its interpreter should not be what limits them.
CONNECTIONS_EACH = 50
SLOW_BYTES_A_SECOND = 1024
SAMPLE_S = 0.2
SETTLE_S = 3

PREFIX, ADDED, NAME_LEN = b"entry-", b"later-", 16
# Of an answer: longer than one entry is.
TAIL_LEN = 512

SERVERS = {
    "levada": lambda d: Store(d, "--processes"),
    "hdfs": lambda d: Apache(d, datanodes=1),
    # A whole directory in one reply, as it was when HADOOP-4797 was reported.
    "hdfs-whole": lambda d: Apache(d, datanodes=1, names={"dfs.ls.limit": "100000000"}),
}


def name(number: int) -> str:
    return f"{PREFIX.decode()}{number:010}"


def fill(server: tuple, directory: str, numbers: range):
    """Directories: the same row for either server, made by one call. Many calls are under way at a time."""
    window, mode = 256, (2, message((1, 0o755)))
    with Connection(server) as connection:
        connection.socket.settimeout(120)
        for at, number in enumerate(numbers):
            connection.send(at, "mkdirs", message((1, f"{directory}/{name(number)}"), mode, (3, 1)))
            if at >= window:
                check(connection)
        for _ in range(min(window, len(numbers))):
            check(connection)


def check(connection):
    answer = connection.receive()
    assert answer.status == 0, answer.text


def skim(connection, scratch: bytearray) -> tuple[int, int, bytes]:
    """Takes one answer of getListing and reads nothing but its end: its length, how many entries remain, and the last
    one's name."""
    taken, view = 0, memoryview(scratch)
    length, tail = struct.unpack(">i", connection._exactly(4))[0], b""
    while taken < length:
        got = connection.socket.recv_into(view[: min(length - taken, len(scratch))])
        if got == 0:
            raise ConnectionError("closed")
        tail = (tail + bytes(view[max(0, got - TAIL_LEN) : got]))[-TAIL_LEN:]
        taken += got
    # DirectoryListingProto ends with remainingEntries: field 2, a varint, whose bytes but the last have their high bit
    # set.
    remaining = next(read_varint(tail, len(tail) - k)[0] for k in range(1, 6) if tail[-k - 1] == 0x10)
    last = max(tail.rfind(PREFIX), tail.rfind(ADDED))
    return length, remaining, tail[last : last + NAME_LEN]


def listing(directory: str, start: bytes) -> bytes:
    return message((1, directory), (2, start), (3, 0))


def attack(server, directory, connections, first, until, results):
    """Each connection lists the directory from end to end, adds a file to it, and begins again."""
    done = []

    def one(number: int):
        scratch, taken, whole, added = bytearray(1 << 18), 0, 0, 0
        with Connection(server) as connection:
            connection.socket.settimeout(300)
            call = 0
            while time.monotonic() < until:
                start, remaining = b"", 1
                while remaining and time.monotonic() < until:
                    connection.send(call, "getListing", listing(directory, start))
                    length, remaining, start = skim(connection, scratch)
                    call, taken = call + 1, taken + length
                whole += remaining == 0
                path = f"{directory}/{ADDED.decode()}{number:04}{added:06}"
                connection.send(call, "mkdirs", message((1, path), (2, message((1, 0o755))), (3, 1)))
                call, added = call + 1, added + 1
                check(connection)
        done.append((taken, whole, added))

    threads = [threading.Thread(target=one, args=(first + n,)) for n in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(tuple(map(sum, zip(*done))) if done else (0, 0, 0))


def dawdle(server, directory, connections, until):
    """Asks for listings and takes 1 KB of them a second."""
    clients = []
    for _ in range(connections):
        client = Connection(server)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for call in range(20):
            client.send(call, "getListing", listing(directory, b""))
        client.socket.setblocking(False)
        clients.append(client)
    while time.monotonic() < until:
        for client in clients:
            try:
                client.socket.recv(SLOW_BYTES_A_SECOND)
            except BlockingIOError:
                pass
            except ConnectionError:
                clients.remove(client)
                break
        time.sleep(1)


def watch_stat(server, until, results):
    """Seconds of a stat by somebody else, a hundred times a second."""
    times = []
    with Connection(server) as connection:
        connection.socket.settimeout(300)
        call = 0
        while time.monotonic() < until:
            begun = time.monotonic()
            connection.send(call, "getFileInfo", message((1, "/")))
            check(connection)
            call += 1
            times.append(time.monotonic() - begun)
            time.sleep(0.01)
    results.put(times)


def cpu(pid: int) -> float:
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


class Sampler:
    """Private memory of a process over time."""

    def __init__(self, pid: int):
        self.pid, self.rows, self.ended = pid, [], threading.Event()
        self.begun = time.monotonic()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.ended.wait(SAMPLE_S):
            self.rows.append((round(time.monotonic() - self.begun, 2), memory(self.pid, "RssAnon")))

    def stop(self) -> list:
        self.ended.set()
        self.thread.join()
        return self.rows


def run(store, directory: str, entries: int, clients: int, slow: int, seconds: float) -> dict:
    server = address(store.fs)
    pid = (store.pids["meta"])[0]
    time.sleep(SETTLE_S)
    start = memory(pid, "RssAnon")
    sampler = Sampler(pid)
    time.sleep(1)
    used, begun = cpu(pid), time.monotonic()
    until = begun + seconds
    results, stats = multiprocessing.Queue(), multiprocessing.Queue()
    attackers = []
    for first in range(0, clients, CONNECTIONS_EACH):
        many = min(CONNECTIONS_EACH, clients - first)
        attackers.append(multiprocessing.Process(target=attack, args=(server, directory, many, first, until, results)))
    others = [
        multiprocessing.Process(target=dawdle, args=(server, directory, slow, until)),
        multiprocessing.Process(target=watch_stat, args=(server, until, stats)),
    ]
    for process in [*attackers, *others]:
        process.start()
    sums = tuple(map(sum, zip(*(results.get() for _ in attackers))))
    took = time.monotonic() - begun
    times = stats.get()
    for process in [*attackers, *others]:
        process.join()
    used = cpu(pid) - used
    time.sleep(2)
    rows = sampler.stop()
    taken, whole, added = sums
    return {
        "entries": entries,
        "clients": clients,
        "slow_clients": slow,
        "seconds": round(took, 1),
        "listed_mb": round(taken / MB, 1),
        "whole_listings": whole,
        "added": added,
        "start_mb": round(start / MB, 1),
        "peak_above_start_mb": round((max(row[1] for row in rows) - start) / MB, 1),
        "end_above_start_mb": round((rows[-1][1] - start) / MB, 1),
        "cpu_s_per_gb": round(used / (taken / 1e9), 2) if taken else None,
        "stat_p50_ms": round(1000 * crowd.percentile(times, 0.5), 2),
        "stat_p99_ms": round(1000 * crowd.percentile(times, 0.99), 2),
        "memory": rows,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="levada,hdfs,hdfs-whole", help=f"of {', '.join(SERVERS)}")
    parser.add_argument("--entries", default="35000,100000", help="in the directory")
    parser.add_argument("--clients", default="20,200", help="that list it at the same time")
    parser.add_argument("--slow", type=int, default=20, help="clients more, which take 1 KB a second")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", type=pathlib.Path, help="a file for every figure, the memory over time included")
    asked = parser.parse_args()
    columns = "entries clients listed_mb whole_listings start_mb peak_above_start_mb end_above_start_mb".split()
    columns += "cpu_s_per_gb stat_p50_ms stat_p99_ms".split()
    print("| server | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1), flush=True)
    found = []
    crowd.allow(2000)
    for wanted in asked.servers.split(","):
        with tempfile.TemporaryDirectory(prefix="levada-listings-") as directory:
            store = SERVERS[wanted](pathlib.Path(directory) / "store")
            try:
                for entries in map(int, asked.entries.split(",")):
                    path = f"/listed-{entries}"
                    half = entries // 2
                    with multiprocessing.Pool(2) as pool:
                        server = address(store.fs)
                        pool.starmap(fill, [(server, path, range(half)), (server, path, range(half, entries))])
                    for clients in map(int, asked.clients.split(",")):
                        row = {"server": wanted, **run(store, path, entries, clients, asked.slow, asked.seconds)}
                        found.append(row)
                        print(f"| {wanted} | " + " | ".join(str(row[column]) for column in columns) + " |", flush=True)
            finally:
                store.stop()
    if asked.json:
        asked.json.write_text("".join(json.dumps(row) + "\n" for row in found))


if __name__ == "__main__":
    main()
