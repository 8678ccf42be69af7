#!/usr/bin/env python3
"""Positioned reads while one of three datanodes is 100 times slower: it is stopped 99 ms of each 100.

    cargo build --release -p levada -p client --examples
    bench/slow/run.py [ROUNDS]

Healthy and slow take turns in one run; each line is one turn.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
SECONDS = 5


def slowed(pid: int, stop: threading.Event):
    while not stop.is_set():
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.099)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.001)


def main(rounds: int):
    with tempfile.TemporaryDirectory() as directory:
        command = [TARGET / "levada", "up", "--processes", "--json", "--port-base", "0", "--dir", f"{directory}/store"]
        store = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
        try:
            ready = json.loads(store.stdout.readline())
            source = pathlib.Path(directory, "file")
            source.write_bytes(os.urandom(64 << 20))
            subprocess.run([TARGET / "levada", "put", "-q", source, f"{ready['fs']}/file"], check=True)
            times = {"healthy": [], "one slow": []}
            for _ in range(rounds):
                for state, found in times.items():
                    stop = threading.Event()
                    thread = threading.Thread(target=slowed, args=(ready["pids"]["data"][0], stop))
                    if state == "one slow":
                        thread.start()
                    reader = [TARGET / "examples" / "read_latency", ready["fs"], "/file", str(SECONDS)]
                    line = subprocess.run(list(map(str, reader)), check=True, capture_output=True, text=True).stdout
                    stop.set()
                    if state == "one slow":
                        thread.join()
                    print(state, line, end="", flush=True)
                    found.append(json.loads(line))
            for name in ["p50_ms", "p99_ms"]:
                healthy, slow = (statistics.median(turn[name] for turn in found) for found in times.values())
                print(f"{name}: healthy {healthy:.2f}, one slow {slow:.2f}, {slow / healthy:.2f} times")
        finally:
            store.send_signal(signal.SIGTERM)
            store.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
