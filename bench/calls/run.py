#!/usr/bin/env python3
"""System calls and threads of a store's servers, per packet of 64 KiB and per small file, of one binary or several in turn.

    cargo build --release
    bench/calls/run.py BINARY [BINARY ...]   # with the Python that has tests/requirements.txt (.test/venv/bin/python)

Each binary runs a store of its own (`levada up --processes`); hdfs-native puts and gets 256 MiB and writes 200 files of
4 KiB, `levada bench small` 400 more. strace counts at all servers meanwhile, so times say nothing.
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import hdfs_native

MIB = 1 << 20
LENGTH, PACKET = 256 * MIB, 64 << 10
SMALL, BENCH = 200, 400
SHOWN = 8


class Servers:
    """`levada up`, and a tracer at each of its processes while `traced` runs."""

    def __init__(self, binary: pathlib.Path, directory: pathlib.Path):
        command = [binary, "up", "--dir", directory / "store", "--port-base", "0", "--processes", "--json"]
        self.directory = directory
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        ready = json.loads(self.process.stdout.readline())
        self.fs, self.pids = ready["fs"], {"metadata": ready["pids"]["meta"], "datanodes": ready["pids"]["data"]}

    def traced(self, work) -> dict:
        """By role: the calls by name, and the most threads that there were."""
        tracers = []
        for role, pids in self.pids.items():
            for pid in pids:
                out = self.directory / f"{pid}.calls"
                command = ["strace", "-f", "-c", "-o", str(out), "-p", str(pid)]
                tracers.append((role, out, subprocess.Popen(command, stderr=subprocess.DEVNULL)))
        time.sleep(2)  # until all threads are traced
        most, ended = collections.Counter(), threading.Event()
        watcher = threading.Thread(target=self._watch, args=(most, ended))
        watcher.start()
        work()
        time.sleep(0.3)
        ended.set()
        watcher.join()
        calls = {role: collections.Counter() for role in self.pids}
        for role, out, tracer in tracers:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
            for line in out.read_text().splitlines():
                words = line.split()
                if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
                    calls[role][words[-1]] += int(words[3])
        return {role: (calls[role], most[role]) for role in self.pids}

    def _watch(self, most, ended):
        while not ended.wait(0.02):
            for role, pids in self.pids.items():
                most[role] = max(most[role], sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def measure(binary: pathlib.Path):
    with tempfile.TemporaryDirectory(prefix="levada-calls-") as directory:
        servers = Servers(binary, pathlib.Path(directory))
        try:
            client, data = hdfs_native.Client(servers.fs), os.urandom(LENGTH)

            def put():
                with client.create("/large", hdfs_native.WriteOptions(overwrite=True)) as file:
                    for at in range(0, LENGTH, 8 * MIB):
                        file.write(data[at : at + 8 * MIB])

            def get():
                with client.read("/large") as file:
                    assert file.read(LENGTH) == data

            def small():
                for number in range(SMALL):
                    with client.create(f"/small-{number}") as file:
                        file.write(data[:4096])

            def bench():
                command = [binary, "bench", "small", "--clients", "8", "--files", str(BENCH), "--url", servers.fs, "-q"]
                subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)

            put()
            packets = LENGTH / PACKET
            for what, work, units in [("put", put, packets), ("get", get, packets), ("small files", small, SMALL), ("bench small", bench, BENCH)]:
                for role, (calls, threads) in servers.traced(work).items():
                    named = ", ".join(f"{name} {count / units:.2f}" for name, count in calls.most_common(SHOWN))
                    print(f"| {binary} | {what} | {role} | {threads} | {calls.total() / units:.2f} | {named} |", flush=True)
        finally:
            servers.stop()


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    print("| binary | what | servers | threads | calls for a packet or file | of them |\n|---|---|---|---|---|---|", flush=True)
    for binary in sys.argv[1:]:
        measure(pathlib.Path(binary))


if __name__ == "__main__":
    main()
