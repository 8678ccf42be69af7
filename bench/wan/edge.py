#!/usr/bin/env python3
"""The talk's query by uproot: on a local file, and on the same file at an edge, cold, warm, and after a restart.

    bench/wan/edge.py --levada target/release/levada --emulator PROGRAM --file h1.root --rtt 240 --repeats 9

The edge reaches the store by a gateway, and that through the emulator: `PROGRAM proxy --listen ADDR --to ADDR --rtt MS
--bandwidth MBIT --slow-start`, which says one line on standard error when it listens. Needed in this Python: uproot and
XRootD's bindings. Local and warm take turns. What is selected is held against what is known. Prints a line of JSON.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

QUERY = """
import json, sys, time
import numpy, uproot, XRootD.client
url = sys.argv[1]
options = {"handler": uproot.XRootDSource} if url.startswith("root:") else {}
begun = time.perf_counter()
with uproot.open({url: "T"}, **options) as tree:
    arrays = tree.arrays(["rawtr", "E33"], library="np")
    selected = arrays["rawtr"][arrays["E33"] > 5]
print(json.dumps([time.perf_counter() - begun, len(selected), round(float(selected.sum(dtype="f8")), 2)]))
"""
SELECTED = (324_607, 25_965_821.10)


def query(url):
    done = subprocess.run([sys.executable, "-c", QUERY, str(url)], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(done.stderr)
    seconds, *selected = json.loads(done.stdout.splitlines()[-1])
    assert tuple(selected) == SELECTED, selected
    return round(seconds, 3)


class Bench:
    def __init__(self, given, directory):
        self.given, self.directory, self.all = given, directory, []
        self.fs = self.start("up", "--dir", directory / "store", "--port-base", "0")["fs"]
        environment = {**os.environ, "LEVADA_URL": self.fs}
        subprocess.run([given.levada, "put", given.file, f"/{given.file.name}"], env=environment, check=True)
        gateway = self.start("gateway", "--url", self.fs, "--listen", "127.0.0.1:0", "--beside-servers")["gateway"]
        link = [given.emulator, "proxy", "--listen", given.listen, "--to", gateway, "--rtt", given.rtt]
        link += ["--bandwidth", "1000", "--slow-start"]
        self.all.append(subprocess.Popen(link, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        self.all[-1].stderr.readline()

    def start(self, *words):
        log = open(self.directory / "log", "a")
        command = [self.given.levada, *map(str, words), "--json"]
        self.all.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True))
        return json.loads(self.all[-1].stdout.readline())

    def edge(self):
        ready = self.start(
            *["gateway", "--edge", "--url", self.fs, "--upstream", self.given.listen, "--root", "127.0.0.1:0"],
            *["--cache-dir", self.directory / "cache", "--cache-size", "1G", "--metrics", "127.0.0.1:0"],
        )
        return f"root://{ready['root']}//{self.given.file.name}", ready["metrics"]

    def stop(self, process):
        process.terminate()
        process.communicate(timeout=60)


def count(metrics, name):
    page = urllib.request.urlopen(f"http://{metrics}/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["levada", "emulator", "file"]:
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--rtt", default="240", help="milliseconds")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--listen", default="127.0.0.1:28094", help="where the emulator listens")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(given, pathlib.Path(directory))
        try:
            url, metrics = bench.edge()
            query(given.file)
            found = {"rtt_ms": float(given.rtt), "load": os.getloadavg()[0], "cold": query(url)}
            found["read"] = count(metrics, 'levada_edge_read_bytes_total{from="store"}')
            turns = [(query(given.file), query(url)) for _ in range(given.repeats)]
            found["local"], found["warm"] = map(list, zip(*turns, strict=True))
            found["fetched"] = count(metrics, "levada_edge_fetched_bytes_total")
            bench.stop(bench.all[-1])
            url, metrics = bench.edge()
            found["restarted"] = [query(url) for _ in range(given.repeats)]
            found["fetched_restarted"] = count(metrics, "levada_edge_fetched_bytes_total")
            print(json.dumps(found))
        finally:
            for process in reversed(bench.all):
                bench.stop(process)


if __name__ == "__main__":
    main()
