#!/usr/bin/env python3
"""What it costs a datanode to read its replicas against their checksums: processor time for each GB, and GB a second
for each core.

    cargo build --release -p levada
    bench/scrub/run.py [ROUNDS]

Three datanodes, each with one large file (replicas that are files of their own) and with many small ones (in packs). A
pass as fast as it goes over each, page cache warm, so that the disk does not count. GB is 10^9 bytes.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEVADA = os.environ.get("LEVADA_BIN", ROOT / "target" / "release" / "levada")
LARGE_LEN = 500_000_000
SMALL_LEN, SMALL_COUNT = 16 << 10, 8000
TICK = os.sysconf("SC_CLK_TCK")


def cpu(pids) -> float:
    """User and system seconds so far."""
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def levada(fs, *words, **how):
    return subprocess.run(
        [str(LEVADA), *map(str, words)], env={**os.environ, "LEVADA_URL": fs}, check=True, capture_output=True, **how
    )


def measure(name, fill, rounds):
    with tempfile.TemporaryDirectory() as directory:
        command = [
            LEVADA,
            "up",
            "--processes",
            "--durability",
            "replicated",
            "--json",
            "--port-base",
            "0",
            "--dir",
            f"{directory}/store",
        ]
        store = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
        try:
            ready = json.loads(store.stdout.readline())
            fill(ready["fs"])
            costs, rates = [], []
            for _ in range(rounds + 1):
                before = cpu(ready["pids"]["data"])
                done = levada(ready["fs"], "admin", "scrub", "--rate", "100G", "--wait", "--json")
                spent = cpu(ready["pids"]["data"]) - before
                job = json.loads(done.stdout.splitlines()[-1])
                assert (job["state"], job["found"]) == ("done", 0), job
                costs.append(spent / (job["done_bytes"] / 1e9))
                rates.append(job["done_bytes"] / 1e9 / (job["ran_ms"] / 1e3))
            # The first round has warmed the page cache.
            cost, rate = statistics.median(costs[1:]), statistics.median(rates[1:])
            print(
                f"{name}: {job['done_bytes'] / 1e9:.2f} GB, {job['done_count']} replicas: {cost:.3f} CPU s/GB "
                f"[{min(costs[1:]):.3f}-{max(costs[1:]):.3f}], so {1 / cost:.1f} GB/s for each core; "
                f"all nodes together {rate:.2f} GB/s",
                flush=True,
            )
        finally:
            store.send_signal(signal.SIGTERM)
            store.wait()


def large(fs):
    levada(fs, "put", "-q", "-", "/file", input=os.urandom(LARGE_LEN))


def small(fs):
    levada(fs, "bench", "small", "--files", SMALL_COUNT, "--size", SMALL_LEN, "--clients", 8, "--keep")


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    measure("files of their own", large, rounds)
    measure("in packs", small, rounds)
