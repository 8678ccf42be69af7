#!/usr/bin/env python3
"""A metadata server with many files, beside the same with few: memory, start, and what a call costs.

    cargo build --release -p levada
    bench/meta/many.py [--files 100k,10M] [--reps 3] [--dir DIR] [--fill]
                                                    # with the Python that has tests/requirements.txt

Files are made by `levada bench fill`: one block of 8 MiB each, three replicas, a thousand in a directory. No datanode
runs, so calls are those that need none. Servers start from a cold page cache where `--drop` can empty it. Ten million
files take some twenty minutes to make: what lies in DIR already is used again, and `--fill` only makes it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "interop"))
import paths  # noqa: E402
from rawrpc import Connection, message  # noqa: E402
from roles import free_port  # noqa: E402
from store import address, die_with_parent  # noqa: E402

UNITS = {"k": 1000, "M": 1_000_000}
CALLS = 20_000
UNDER_WAY = 16
# Directories that are listed again and again, and as many in each round that were not listed before.
LISTED = 16
# What a server does without being asked is measured for so many seconds, and taken off: with no datanodes it looks for
# their replicas all the time, and after a start it counts how large its containers are.
IDLE_TIME = 2
WHOLE_FILE = 1 << 62


def number(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def path(file: int) -> str:
    directory = file // 1000
    return f"/many/{directory // 1000:04}/{directory % 1000:03}/file-{file:09}"


def private(pid: int) -> int:
    """Bytes that are this process' own and not a file's."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Anonymous:")) * 1024


def cpu(pid: int) -> float:
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


class Server:
    """`levada meta` over a directory that was filled."""

    def __init__(self, directory: pathlib.Path, files: int):
        self.directory, self.files = directory, files
        self.port = free_port()
        self.config = directory / "meta.toml"
        self.config.write_text(
            f'http_addr = "127.0.0.1:0"\n[meta]\ndir = "{directory}/meta"\nrpc_addr = "127.0.0.1:{self.port}"\n'
            f"lost_after_ms = {365 * 24 * 3600 * 1000}\n"
        )

    def fill(self):
        made = self.directory / "made"  # to its end
        if made.exists():
            return
        begun = time.monotonic()
        command = [paths.LEVADA, "bench", "fill", "--dir", self.directory / "meta", "--files", self.files]
        subprocess.run(list(map(str, command)), check=True, stderr=subprocess.DEVNULL)
        used = sum(file.stat().st_blocks * 512 for file in (self.directory / "meta").rglob("*") if file.is_file())
        print(f"{self.files} files made in {time.monotonic() - begun:.0f} s, {used / 1e9:.2f} GB on disk", flush=True)
        made.touch()

    def start(self) -> float:
        """Seconds from the start to the first answer."""
        command = [str(paths.LEVADA), "meta", "--config", str(self.config), "--json"]
        begun = time.monotonic()
        log = open(self.directory / "meta.log", "ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, preexec_fn=die_with_parent
        )
        ready = json.loads(self.process.stdout.readline())
        self.addr = address(f"hdfs://{ready['rpc']}")
        with Connection(self.addr) as connection:
            answer = connection.call(0, "getFileInfo", message((1, path(self.files - 1))))
            assert answer.status == 0 and answer.body, answer.text
        return time.monotonic() - begun

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def idle(self) -> float:
        """CPU seconds of a second in which nobody asks."""
        before, begun = cpu(self.process.pid), time.monotonic()
        time.sleep(IDLE_TIME)
        return (cpu(self.process.pid) - before) / (time.monotonic() - begun)

    def ask(self, calls, idle: float = 0) -> tuple[float, float]:
        """Server CPU without `idle`, and wall time of a call, in microseconds; `calls` are methods and requests."""
        with Connection(self.addr) as connection:
            connection.socket.settimeout(60)
            before, begun, waiting, count = cpu(self.process.pid), time.monotonic(), 0, 0
            for method, request in calls:
                connection.send(count, method, request)
                count, waiting = count + 1, waiting + 1
                if waiting == UNDER_WAY:
                    assert connection.receive().status == 0
                    waiting -= 1
            for _ in range(waiting):
                assert connection.receive().status == 0
            spent, took = cpu(self.process.pid) - before, time.monotonic() - begun
            return (spent - idle * took) * 1e6 / count, took * 1e6 / count

    def kinds(self, chance: random.Random, rep: int) -> dict:
        chosen = random.Random(1).sample(range(self.files // 1000), LISTED * (rep + 2))
        listed = [os.path.dirname(path(directory * 1000)) for directory in chosen]
        listing = lambda directory: ("getListing", message((1, directory), (2, b""), (3, 0)))
        any_file = lambda: path(chance.randrange(self.files))
        run = chance.randrange(1 << 40)
        permission = (2, message((1, 0o755)))
        mkdirs = lambda i: ("mkdirs", message((1, f"/made/{run}/{i % 100}/{i}"), permission, (3, 1)))
        return {
            "getFileInfo": (("getFileInfo", message((1, any_file()))) for _ in range(CALLS)),
            "getBlockLocations": (
                ("getBlockLocations", message((1, any_file()), (2, 0), (3, WHOLE_FILE))) for _ in range(CALLS)
            ),
            "getListing, the first time": (listing(directory) for directory in listed[-LISTED:]),
            "getListing, again": (listing(directory) for directory in listed[:LISTED] * 10),
            "mkdirs": (mkdirs(i) for i in range(CALLS // 10)),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="100k,10M", help="how many, of each server")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--dir", type=pathlib.Path, help="where they lie, to be used again (a temporary directory)")
    parser.add_argument("--fill", action="store_true", help="only make the files")
    parser.add_argument("--drop", action="store_true", help="empty the page cache before each start (root)")
    asked = parser.parse_args()
    least = LISTED * (asked.reps + 2) * 1000
    if min(map(number, asked.files.split(","))) < least:
        parser.error(f"{asked.reps} rounds list directories of {least} files that were not listed before")
    with contextlib.ExitStack() as stack:
        directory = asked.dir or stack.enter_context(tempfile.TemporaryDirectory(prefix="levada-many-"))
        servers = []
        for text in asked.files.split(","):
            home = pathlib.Path(directory) / text
            home.mkdir(parents=True, exist_ok=True)
            servers.append(Server(home, number(text)))
            servers[-1].fill()
        if asked.fill:
            return
        for server in servers:
            starts = []
            for _ in range(asked.reps):
                if asked.drop:
                    os.sync()
                    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
                starts.append(server.start())
                server.stop()
            print(
                f"{server.files} files: first answer after "
                f"{statistics.median(starts):.2f} s [{min(starts):.2f}-{max(starts):.2f}]",
                flush=True,
            )
            server.start()
        found = {}
        chance = random.Random(7)
        for rep in range(asked.reps + 1):
            for server in servers if rep % 2 else servers[::-1]:
                idle = server.idle()
                for kind, calls in server.kinds(chance, rep).items():
                    figures = server.ask(calls, idle)
                    if rep:  # the first round warms up
                        found.setdefault((kind, server.files), []).append(figures)
        for server in servers:
            print(
                f"{server.files} files: {private(server.process.pid) / 1e6:.0f} MB of private memory after all calls",
                flush=True,
            )
            server.stop()
        print("| call | files | server CPU µs | wall µs | CPU, least ÷ this |\n|---|---|---|---|---|")
        for kind in servers[0].kinds(chance, 0):
            least = statistics.median(cpu for cpu, _ in found[kind, servers[0].files])
            for server in servers:
                spent, wall = zip(*found[kind, server.files])
                middle = statistics.median(spent)
                print(
                    f"| {kind} | {server.files} | {middle:.1f} [{min(spent):.1f}-{max(spent):.1f}] | "
                    f"{statistics.median(wall):.1f} | {least / middle:.2f} |"
                )


if __name__ == "__main__":
    main()
