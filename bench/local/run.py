#!/usr/bin/env python3
"""Reads a file of 1 GB on the datanode's own machine: with `cat` from the local disk, with `cat` of the files that the
store has it in, with `levada get` by descriptors, and with `levada get` over TCP, in turn.

    bench/local/run.py LEVADA [ROUNDS [DIRECTORY]]

It starts a store of its own with one datanode. Of each reader the whole process counts; the store's processor is
beside it. All is in the page cache.
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

LEN = 10**9
LEVADA, ROUNDS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
TICK = os.sysconf("SC_CLK_TCK")


def processor_of(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def run(command: list[str], pid: int) -> tuple[float, float, float]:
    """Seconds, those of the reader's processor, and those of the store's."""
    before, store, began = resource.getrusage(resource.RUSAGE_CHILDREN), processor_of(pid), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, own, processor_of(pid) - store


with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as directory:
    local, store = os.path.join(directory, "file"), os.path.join(directory, "store")
    with open(local, "wb") as file:
        for _ in range(100):
            file.write(os.urandom(LEN // 100))
    command = [LEVADA, "up", "--dir", store, "--port-base", "0", "--json", "--datanodes", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        url = json.loads(server.stdout.readline())["fs"]
        subprocess.run([LEVADA, "put", local, f"{url}/f"], check=True)
        (socket,) = pathlib.Path(store).glob("data.*")
        away = socket.with_name("away")
        get = [LEVADA, "get", f"{url}/f", "-"]
        # Written by shorter calls, so of shorter pages.
        blocks = sorted(pathlib.Path(store).glob("data*/containers/*/*.data"))
        assert sum(path.stat().st_size for path in blocks) >= LEN
        ways = ["cat", "cat of blocks", "by descriptors", "over TCP"]
        found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
        for number in range(ROUNDS + 1):
            made = [("cat", run(["cat", local], server.pid)), ("cat of blocks", run(["cat", *blocks], server.pid))]
            made.append(("by descriptors", run(get, server.pid)))
            # As for a client in a container, which does not find it.
            socket.rename(away)
            made.append(("over TCP", run(get, server.pid)))
            away.rename(socket)
            if number > 0:  # the first round brings all into memory
                for name, values in made:
                    found[name].append(values)
        print(f"1 GB, medians of {ROUNDS}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        base = [statistics.median(values) for values in zip(*found["cat"])]
        for name, rounds in found.items():
            seconds, own, beside = (statistics.median(values) for values in zip(*rounds))
            print(
                f"{name:15} {seconds:.3f} s ({seconds / base[0]:.2f})   {own:.3f} CPU s ({own / base[1]:.2f})"
                f"   and {beside:.2f} CPU s of the store"
            )
    finally:
        server.terminate()
        server.wait()
