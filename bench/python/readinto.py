#!/usr/bin/env python3
"""Reads a file of 1 GB by Python's `readinto` and by the Rust client (`levada get`), in turn, and compares them.

    python bench/python/readinto.py [ROUNDS]

With the package installed; it starts a store of its own. Of `levada get` the whole process counts, of Python the
reading alone: fsspec takes longer to import than the command to run.
"""

import os
import resource
import statistics
import subprocess
import sys
import time

import levada
from levada.testing import Store, command

LEN = 10**9


class Measured:
    """Seconds, and those of the processor."""

    def __init__(self):
        self.found: list[tuple[float, float]] = []

    def run(self, work, who: int) -> None:
        before, began = resource.getrusage(who), time.monotonic()
        work()
        seconds, after = time.monotonic() - began, resource.getrusage(who)
        self.found.append((seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))

    def __str__(self) -> str:
        seconds, processor = (statistics.median(values) for values in zip(*self.found))
        return f"{seconds:.2f} s   {processor:.2f} CPU s"


with Store() as store:
    fs = levada.LevadaFileSystem(store.host, store.port)
    with fs.open("/f", "wb") as file:
        piece = os.urandom(10**7)
        for _ in range(LEN // len(piece)):
            file.write(piece)
    buffer = bytearray(1 << 20)

    def read() -> None:
        total = 0
        with fs.open("/f") as file:
            while count := file.readinto(buffer):
                total += count
        assert total == LEN

    def get() -> None:
        subprocess.run([command(), "get", f"{store.url}/f", "-"], check=True, stdout=subprocess.DEVNULL)

    # Not the first reading, from a disk perhaps.
    read()
    by_rust, by_python = Measured(), Measured()
    for _ in range(int(sys.argv[1] if len(sys.argv) > 1 else 9)):
        by_rust.run(get, resource.RUSAGE_CHILDREN)
        by_python.run(read, resource.RUSAGE_SELF)
    print(f"levada get   {by_rust}\nreadinto     {by_python}")
