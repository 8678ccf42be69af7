#!/usr/bin/env python3
"""Reads all row groups of a Parquet file by pyarrow, from a local disk and from a store on the same machine, in turn.

    python bench/python/parquet.py FILE.parquet [ROUNDS]

With the package installed; it starts a store of its own. Each reading is a process; what its imports take does not
count.
"""

import os
import resource
import statistics
import subprocess
import sys
import time


def read(place: str) -> None:
    """One reading: prints seconds, seconds of the processor, and rows."""
    import pyarrow.parquet as pq

    if place.startswith("levada://"):
        import fsspec

        fs, path = fsspec.url_to_fs(place)
        source = fs.open(path)
    else:
        source = open(place, "rb")
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    table = pq.ParquetFile(source)
    rows = sum(table.read_row_group(group).num_rows for group in range(table.num_row_groups))
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    print(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, rows, flush=True)
    # pyarrow's threads may hold the file for a moment longer, and end the process if Python goes before them.
    os._exit(0)


def main(file: str, rounds: int) -> None:
    from levada.testing import Store, command

    with Store() as store:
        url = f"levada://{store.host}:{store.port}/bench.parquet"
        subprocess.run([command(), "put", file, url.replace("levada://", "hdfs://")], check=True)
        found = {place: [] for place in (file, url)}
        for _ in range(rounds):
            for place, figures in found.items():
                done = subprocess.run([sys.executable, __file__, "--read", place], check=True, stdout=subprocess.PIPE)
                figures.append([float(figure) for figure in done.stdout.split()])
    for place, figures in found.items():
        seconds, processor, rows = (statistics.median(values) for values in zip(*figures))
        print(f"{place}: {seconds:.2f} s, {processor:.2f} CPU s, {rows:.0f} rows")


if __name__ == "__main__":
    if sys.argv[1] == "--read":
        read(sys.argv[2])
    else:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
