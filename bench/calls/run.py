#!/usr/bin/env python3
"""System calls and threads of a store's servers, per packet of 64 KiB and per small file, of one binary or several
in turn; or how often they ask their allocator for memory.

    cargo build --release
    bench/calls/run.py [--allocations] BINARY [BINARY ...]   # with the Python that has tests/requirements.txt


Each binary runs a store of its own (`levada up --processes`); hdfs-native puts and gets 256 MiB and writes 200 files of
4 KiB, `levada bench small` 400 more. strace counts at all servers meanwhile, so times say nothing. With `--allocations`
perf counts, by breakpoints of the processor, at the functions that hand out memory.
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
# What the program asks for memory, as `nm` has it.
ALLOCATORS = ["mi_malloc_aligned", "mi_realloc_aligned", "mi_zalloc_aligned"]


class Servers:
    """`levada up`, and a tracer at each of its processes while `traced` runs."""

    def __init__(self, binary: pathlib.Path, directory: pathlib.Path):
        command = [binary, "up", "--dir", directory / "store", "--port-base", "0", "--processes", "--json"]
        self.directory, self.binary = directory, binary.resolve()
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        ready = json.loads(self.process.stdout.readline())
        named = subprocess.run(["nm", str(binary)], check=True, capture_output=True, text=True).stdout.splitlines()
        places = {line.split()[-1]: int(line.split()[0], 16) for line in named if line.split()[-1] in ALLOCATORS}
        self.symbols = {name: places[name] for name in ALLOCATORS}
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

    def allocations(self, work) -> dict:
        """By role: how often each function of the allocator was called."""
        counters = []
        for role, pids in self.pids.items():
            for pid in pids:
                maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
                base = int(next(line for line in maps if line.endswith(str(self.binary))).split("-", 1)[0], 16)
                events = [f"mem:0x{base + at:x}:x:u" for at in self.symbols.values()]
                out = self.directory / f"{pid}.allocations"
                command = [
                    "perf",
                    "stat",
                    "-x",
                    ",",
                    "-o",
                    str(out),
                    *(word for event in events for word in ("-e", event)),
                    "-p",
                    str(pid),
                ]
                counters.append((role, out, subprocess.Popen(command, stderr=subprocess.DEVNULL)))
        time.sleep(1)  # until they count
        work()
        time.sleep(0.3)
        found = {role: collections.Counter() for role in self.pids}
        for role, out, counter in counters:
            counter.send_signal(signal.SIGINT)
            counter.wait()
            lines = [line.split(",") for line in out.read_text().splitlines() if ":x" in line]
            assert len(lines) == len(self.symbols), out.read_text()
            for name, line in zip(self.symbols, lines):
                found[role][name.removeprefix("mi_").removesuffix("_aligned")] += int(line[0])
        return {role: (calls, 0) for role, calls in found.items()}

    def _watch(self, most, ended):
        while not ended.wait(0.02):
            for role, pids in self.pids.items():
                most[role] = max(most[role], sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def measure(binary: pathlib.Path, counts_allocations: bool):
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
            for what, work, units in [
                ("put", put, packets),
                ("get", get, packets),
                ("small files", small, SMALL),
                ("bench small", bench, BENCH),
            ]:
                for role, (calls, threads) in (servers.allocations if counts_allocations else servers.traced)(
                    work
                ).items():
                    named = ", ".join(f"{name} {count / units:.2f}" for name, count in calls.most_common(SHOWN))
                    print(
                        f"| {binary} | {what} | {role} | {threads} | {calls.total() / units:.2f} | {named} |",
                        flush=True,
                    )
        finally:
            servers.stop()


def main():
    counts_allocations = "--allocations" in sys.argv
    binaries = [word for word in sys.argv[1:] if word != "--allocations"]
    if not binaries or any(word.startswith("-") for word in binaries):
        raise SystemExit(__doc__)
    counted = "allocations" if counts_allocations else "calls"
    print(
        f"| binary | what | servers | threads | {counted} for a packet or file | of them |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for binary in binaries:
        measure(pathlib.Path(binary), counts_allocations)


if __name__ == "__main__":
    main()
