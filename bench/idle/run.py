#!/usr/bin/env python3
"""What servers with nothing to do cost: with the pipelines that are made ahead of time, and with 500 more.

    cargo build --release
    bench/idle/run.py             # with the Python that has tests/requirements.txt (.test/venv/bin/python)

Every process: `levada up --processes` with one metadata server and 12 datanodes. A pipeline more is made by writing a
file of 4 KB while all but three datanodes are excluded; 12 datanodes have 220 sets of three, and 495 of four.
"""

import argparse
import itertools
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("LEVADA_BIN", str(ROOT / "target" / "release" / "levada"))
sys.path.insert(0, str(ROOT / "tests" / "interop"))

import content  # noqa: E402
from cli import levada  # noqa: E402
from rawdata import Located, Names, Transfer  # noqa: E402
from store import Store  # noqa: E402

DATANODES = 12
HZ = os.sysconf("SC_CLK_TCK")


def used(pid: int) -> tuple[float, int, int]:
    """CPU seconds, resident bytes of its own, and all resident bytes."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    rows = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    size = lambda name: int(rows[name].split()[0]) * 1024
    return (int(fields[11]) + int(fields[12])) / HZ, size("RssAnon"), size("VmRSS")


def pipelines(store) -> int:
    return len(levada(store.fs, "admin", "pipelines", "--json").stdout.splitlines())


def add_pipeline(names: Names, number: int, wanted: set[int], nodes: list[bytes]):
    path = f"/{number}"
    names.create(path, replication=len(wanted))
    others = [(4, info) for index, info in enumerate(nodes) if index not in wanted]
    answer = names.call("addBlock", (1, path), (2, names.holder), *others, (5, names.file))
    located = Located.parse(answer[1][0])
    chain = Transfer(located.addresses()[0])
    chain.write(located, located.infos[1:])
    chain.send(0, 0, content.make(4096))
    chain.ack()
    chain.send(4096, 1, last=True)
    chain.ack()
    chain.close()
    assert names.complete(path, located.extended(length=4096))


def show(store, seconds: float):
    time.sleep(5)
    before = {pid: used(pid) for pids in store.pids.values() for pid in pids}
    time.sleep(seconds)
    after = {pid: used(pid) for pid in before}
    count = pipelines(store)
    for role, title in (("meta", "metadata server"), ("data", f"datanode, mean of {DATANODES}")):
        pids = store.pids[role]
        mean = lambda all, n: sum(all[pid][n] for pid in pids) / len(pids)
        cpu = mean(after, 0) - mean(before, 0)
        print(
            f"| {count} | {title} | {1000 * cpu / seconds:.1f} | "
            f"{mean(after, 1) / 1e6:.0f} | {mean(after, 2) / 1e6:.0f} |",
            flush=True,
        )


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pipelines", type=int, default=500, help="how many more (500)")
    options.add_argument("--seconds", type=float, default=60, help="how long each state is watched (60)")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = Store(pathlib.Path(directory, "levada"), "--processes", "--datanodes", str(DATANODES))
        try:
            print("| pipelines | | CPU ms/s | memory of its own, MB | resident, MB |\n|---|---|---|---|---|")
            show(store, asked.seconds)
            names = Names(store.fs, "root")
            nodes = names.call("getDatanodeReport", (1, 2))[1]
            sets = itertools.chain(*(itertools.combinations(range(len(nodes)), size) for size in (3, 4)))
            for number, wanted in enumerate(itertools.islice(sets, asked.pipelines)):
                add_pipeline(names, number, set(wanted), nodes)
            show(store, asked.seconds)
        finally:
            store.stop()


if __name__ == "__main__":
    main()
