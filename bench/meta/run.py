#!/usr/bin/env python3
"""The metadata server of two binaries of Levada, in turns: what a call cost before and costs now.

    cargo build --release -p levada
    bench/meta/run.py BEFORE AFTER [--rounds N] [--json FILE] [-- OPTIONS OF levada bench meta]

Each binary runs a store of its own (`levada up --processes`, in a directory that goes away) and `levada bench meta` of
AFTER measures both, one round of each in turn, the order changed with every round. Figures are medians of the rounds;
server CPU says most, since it depends least on what else the machine does.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

# What stands beside the server's CPU: the name in the table, and where a line of `levada bench meta --json` has it.
FIGURES = [
    ("ops/s", lambda row: row["ops_per_s"]),
    ("p50 µs", lambda row: row["latency_us"]["p50"]),
    ("p99 µs", lambda row: row["latency_us"]["p99"]),
    ("p99.9 µs", lambda row: row["latency_us"]["p999"]),
]


class Store:
    """A store of one binary, with a process for each role."""

    def __init__(self, name: str, binary: pathlib.Path, directory: pathlib.Path):
        self.name, self.rows = name, {}
        command = [binary, "up", "--processes", "--json", "--port-base", "0", "--dir", directory]
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{binary} up ended with {self.process.wait()}")
        self.fs = json.loads(line)["fs"]

    def measure(self, binary: pathlib.Path, options: list[str]):
        command = [str(binary), "bench", "meta", "--rounds", "1", "--json", "--url", self.fs, *options]
        for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
            row = json.loads(line)
            self.rows.setdefault((row["call"], row["connections"]), []).append(row)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def show(before: Store, after: Store, rounds: int):
    """One row for each call and number of connections."""
    figures = " | ".join(f"{name}, before → after" for name, _ in FIGURES)
    print(
        f"| call | connections | server CPU µs, before | after | ratio | {figures} |\n|" + "---|" * (5 + len(FIGURES))
    )
    for (call, connections), rows in before.rows.items():
        both = (rows, after.rows[call, connections])
        cpu = [[row["server_cpu_us"] for row in rows] for rows in both]
        ratio = statistics.median(cpu[1]) / statistics.median(cpu[0])
        cells = [" → ".join(f"{statistics.median(map(figure, rows)):.0f}" for rows in both) for _, figure in FIGURES]
        print("| " + " | ".join([call, str(connections), *map(spread, cpu), f"{ratio:.2f}", *cells]) + " |")
    print(f"\nMedian [least-most] of {rounds} rounds. CPU and latency are of one operation; a list has 1,000 entries.")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} [{min(values):.1f}-{max(values):.1f}]"


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path, help="a binary of levada")
    parser.add_argument("after", type=pathlib.Path, help="another one, which has `bench meta`")
    parser.add_argument("--rounds", type=int, default=3, help="of each (3)")
    parser.add_argument("--json", type=pathlib.Path, help="a file for every line measured")
    parser.add_argument("--dir", type=pathlib.Path, help="where the stores lie (a temporary directory)")
    asked, options = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    with tempfile.TemporaryDirectory(dir=asked.dir, prefix="levada-meta-") as directory:
        stores = []
        try:
            for name, binary in (("before", asked.before), ("after", asked.after)):
                stores.append(Store(name, binary, pathlib.Path(directory, name)))
            for number in range(asked.rounds):
                for store in stores if number % 2 == 0 else reversed(stores):
                    print(f"round {number + 1} of {asked.rounds}: {store.name}", file=sys.stderr, flush=True)
                    store.measure(asked.after, options)
        finally:
            for store in stores:
                store.stop()
    if asked.json:
        rows = [{"store": s.name, **row} for s in stores for rows in s.rows.values() for row in rows]
        asked.json.write_text("".join(json.dumps(row) + os.linesep for row in rows))
    show(*stores, asked.rounds)


if __name__ == "__main__":
    main()
