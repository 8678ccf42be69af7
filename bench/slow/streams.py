#!/usr/bin/env python3
"""Streams while one of six datanodes is 100 times slower: it is stopped 99 ms of each 100. Those that do not pass it
should not notice.

    cargo build --release
    bench/slow/streams.py [--files 40] [--rounds 3]

with the Python that has tests/requirements.txt (.test/venv/bin/python).

Healthy and slow take turns. Files are written one after the other by `levada put`; a file is "through it" if its block
was placed there, whether or not the node is still in the chain at the end.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("LEVADA_BIN", str(ROOT / "target" / "release" / "levada"))
sys.path.insert(0, str(ROOT / "tests" / "interop"))

from cli import levada  # noqa: E402
from rawdata import Names  # noqa: E402
from run import slowed  # noqa: E402
from store import Store  # noqa: E402

LENGTH = 16 << 20


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--files", type=int, default=40, help="of 16 MiB, in each turn (40)")
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        source = pathlib.Path(directory, "source")
        source.write_bytes(os.urandom(LENGTH))
        store = Store(
            pathlib.Path(directory, "levada"), "--processes", "--datanodes", "6", "--durability", "replicated"
        )
        try:
            names = Names(store.fs, "root")
            victim, port = store.pids["data"][0], store.transfer[0][1]
            times: dict[str, list[float]] = {}
            for turn in range(asked.rounds + 1):
                # Each state is the first of every second turn, and begins with what the one before wrote removed.
                for state in ("healthy", "one slow") if turn % 2 else ("one slow", "healthy"):
                    stop = threading.Event()
                    slowing = threading.Thread(target=slowed, args=(victim, stop))
                    if state == "one slow":
                        slowing.start()
                    for number in range(asked.files):
                        path = f"/{turn}-{state.replace(' ', '-')}-{number}"
                        begun = time.monotonic()
                        levada(store.fs, "put", "-q", source, path)
                        took = time.monotonic() - begun
                        passed = any(port == at for block in names.blocks(path) for _, at in block.addresses())
                        if turn:
                            times.setdefault(f"{state}, {'through it' if passed else 'others'}", []).append(took)
                    stop.set()
                    if state == "one slow":
                        slowing.join()
                    levada(
                        store.fs,
                        "rm",
                        *(f"/{turn}-{state.replace(' ', '-')}-{number}" for number in range(asked.files)),
                    )
                    time.sleep(3)
            print("| | files | p50, ms | p90, ms | most, ms |\n|---|---|---|---|---|")
            for what, found in sorted(times.items()):
                p90 = statistics.quantiles(found, n=10)[-1] if len(found) > 1 else found[0]
                print(
                    f"| {what} | {len(found)} | "
                    f"{1000 * statistics.median(found):.0f} | {1000 * p90:.0f} | {1000 * max(found):.0f} |"
                )
        finally:
            store.stop()


if __name__ == "__main__":
    main()
