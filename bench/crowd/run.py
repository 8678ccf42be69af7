#!/usr/bin/env python3
"""Calls and reads of one client while ten thousand others wait, two hundred do not read, and two hundred take no
answers.

    cargo build --release
    bench/crowd/run.py            # with the Python that has tests/requirements.txt (.test/venv/bin/python)

Each line is one state of the same store, one after the other.
"""

import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("LEVADA_BIN", str(ROOT / "target" / "release" / "levada"))
sys.path.insert(0, str(ROOT / "tests" / "interop"))

import crowd  # noqa: E402
from store import Store  # noqa: E402

SECONDS = 5


def show(state: str, store, located):
    figures = []
    for what, times in crowd.latencies(store, located, SECONDS).items():
        p50, p99 = (1000 * crowd.percentile(times, part) for part in (0.5, 0.99))
        figures.append(f"{what} p50 {p50:.2f} p99 {p99:.2f} ms")
    print(f"{state:30} {', '.join(figures)}, {store.resident() / 1e6:.0f} MB", flush=True)


def main():
    with tempfile.TemporaryDirectory() as directory:
        store = Store(pathlib.Path(directory, "levada"), "--memory", "512M")
        try:
            small, large = crowd.write(store, "/small", 1 << 20), crowd.write(store, "/large", 64 << 20)
            crowd.fill(store, "/long", 1000)
            show("alone", store, small)
            with crowd.Crowd(store, large, idle=10_000):
                show("10,000 idle connections", store, small)
            with crowd.Crowd(store, large, stalled=200):
                show("200 readers that do not read", store, small)
            with crowd.Crowd(store, large, deaf=200, directory="/long"):
                show("200 callers that do not read", store, small)
            show("alone", store, small)
        finally:
            store.stop()


main()
