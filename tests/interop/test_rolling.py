"""A rolling restart: each datanode in turn is in maintenance, ends, and starts anew, while stock Java and `levada`
write and read.

Nobody waits for repair, so nothing is copied; and nobody who writes or reads notices more than a pause.
"""

import itertools
import json
import threading
import time

import pytest

import content
from cli import levada
from clients import FAILURES, JavaApi, Ours
from roles import Roles
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(600)]

# Others can take the place of one in a chain of three.
DATANODES = 6
BLOCK, PIECE = 1 << 20, 64 << 10
LENGTH = 2 * BLOCK + 77_777
# Files of each client that are read again and again; all of them are read at the end.
READ_COUNT = 4
# What a machine needs to start anew, for which nobody else is to take its place. It is lost 15 s after it was silent
# without that.
AWAY_S = 4
BACK_S = 60


class Load:
    """One client that writes a file, reads another one, and so on, until it is told to stop."""

    def __init__(self, client, number: int):
        self.client, self.number = client, number
        self.written, self.operations, self.errors, self.longest = {}, 0, [], 0.0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        for count in itertools.count():
            if self.stopping.is_set():
                return
            path, data = f"/rolling/{self.client.name}-{count}", content.make(LENGTH, 1000 * self.number + count)
            self.timed(lambda: self.write(path, data))
            for earlier in list(self.written)[-READ_COUNT:]:
                self.timed(lambda: self.read(earlier))

    def timed(self, what):
        begun = time.monotonic()
        try:
            what()
        except FAILURES as error:
            self.errors.append(repr(error))
        self.operations += 1
        self.longest = max(self.longest, time.monotonic() - begun)

    def write(self, path, data):
        writer = self.client.writer(path, BLOCK)
        for at in range(0, len(data), PIECE):
            writer.write(data[at : at + PIECE])
            # Blocks stay open for a while: some are when their nodes end.
            time.sleep(0.005)
        writer.flush()
        writer.close()
        self.written[path] = data

    def read(self, path):
        reader, got = self.client.reader(path), b""
        while piece := reader.read(PIECE):
            got += piece
        reader.close()
        assert got == self.written[path], f"{path} is not as it was written: {len(got)} bytes"

    def __str__(self):
        return (
            f"{self.client.name}: {self.operations} operations, the longest {self.longest:.1f} s, "
            f"{len(self.written)} files"
        )


def test_datanodes_start_anew_one_after_the_other(java, tmp_path):
    store = Roles(tmp_path / "rolling", DATANODES)
    loads = []
    try:
        levada(store.fs, "mkdir", "/rolling")
        loads = [Load(client, number) for number, client in enumerate([JavaApi(store, java), Ours(store)])]
        for load in loads:
            load.thread.start()
        eventually(lambda: all(len(load.written) > 1 for load in loads), 60, "nobody writes")
        for name in store.names:
            begun = time.monotonic()
            restart(store, name)
            print(f"{name} was started anew in {time.monotonic() - begun:.1f} s; {', '.join(map(str, loads))}")
            before = [load.operations for load in loads]
            eventually(
                lambda: all(load.operations > was for load, was in zip(loads, before)),
                60,
                f"nobody goes on after {name}",
            )
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.thread.join(120)
            print(load)
            assert not load.thread.is_alive(), f"{load} does not end"
            assert load.errors == [], load
        # Each file has what was written, on as many nodes as it should.
        for load in loads:
            for path in load.written:
                load.read(path)
        repair = lambda: json.loads(levada(store.fs, "admin", "repair", "status", "--json").stdout)
        eventually(lambda: repair()["under_replicated"] == repair()["pending"] == 0, 60, "copies are lacking")
        # Since this server leads, which is from the beginning on: nothing was copied for repair.
        assert [repair()[what] for what in ("missing", "copied", "copied_bytes")] == [0, 0, 0], repair()
    finally:
        for load in loads:
            load.stopping.set()
            load.client.stop()
        store.stop()


def datanode(store, address) -> dict:
    lines = levada(store.fs, "admin", "datanode", "list", "--json").stdout.splitlines()
    return next(node for node in map(json.loads, lines) if node["addr"] == address)


def restart(store, name):
    """As an administrator does it for an upgrade."""
    address = f"127.0.0.1:{store.ports(name)[0]}"
    now = lambda: datanode(store, address)
    levada(store.fs, "admin", "datanode", "maintenance", address, "--for", "10m", "--wait")
    # Who writes through it ends with that, and nobody begins anew.
    eventually(lambda: now()["transfers"] == 0, BACK_S, f"{name} is left alone")
    process = store.processes[name]
    process.terminate()
    assert process.wait(60) == 0
    time.sleep(AWAY_S)
    store.start(name)
    eventually(lambda: (now()["silent_ms"] or AWAY_S * 1000) < AWAY_S * 1000, BACK_S, f"{name} is back")
    levada(store.fs, "admin", "datanode", "maintenance", address, "--end")
    eventually(lambda: now()["state"] == "up", BACK_S, f"{name} serves")
