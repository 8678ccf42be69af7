"""Datanodes are lost, come back and are damaged: what they held is copied, and every replica that is named is read by
itself."""

import json
import os
import shutil
import subprocess
import time

import pytest

import content
import paths
from cli import levada
from replicas import LOST_AFTER_S, healed, put, replicas, roles, some_files, transfer_address
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

# From the limit on: a round of the leader, the copies, and a machine of two cores that does other things as well.
HEALED_S = 45


def test_a_lost_node_is_replaced_everywhere(roles):
    store = roles()
    files = some_files(store)
    dead = transfer_address(store, "data2")
    begun = time.monotonic()
    store.kill("data2")
    eventually(lambda: healed(store, files, without=[dead]), LOST_AFTER_S + HEALED_S)
    print(f"healed {time.monotonic() - begun:.1f} s after the node was killed")


def test_a_metadata_server_that_stood_still_replaces_nobody(roles):
    """It has heard nothing for longer than a node may be silent: that says nothing of the nodes."""
    store = roles()
    files = {f"/f{number}": content.make(3000 + number, number) for number in range(20)}
    for path, data in files.items():
        put(store, path, data)

    def members() -> set:
        lines = map(json.loads, levada(store.fs, "admin", "pipelines", "--json").stdout.splitlines())
        return {(line["id"], line["epoch"], *line["members"]) for line in lines}

    eventually(lambda: healed(store, files), HEALED_S)
    time.sleep(LOST_AFTER_S)  # from now on it could tell of a loss
    before = members()
    for number in range(5):
        store.pause("meta")
        time.sleep(LOST_AFTER_S + 2)
        store.go_on("meta")
        # Who writes is not told that nobody is there.
        put(store, f"/after{number}", content.make(5000, number))
    time.sleep(2)
    assert before and before <= members()
    assert "datanode lost" not in (store.directory / "meta.log").read_text()


def test_a_stream_that_lost_a_node_is_filled_up(roles):
    store = roles()
    data = content.make(5 * paths.BLOCK, 1)
    writer = subprocess.Popen(
        [str(paths.LEVADA), "put", "--block-size", str(paths.BLOCK), "-", "/stream"],
        env={**os.environ, "LEVADA_URL": store.fs}, stdin=subprocess.PIPE,
    )  # fmt: skip
    half = 2 * paths.BLOCK + 300_000
    writer.stdin.write(data[:half])
    writer.stdin.flush()
    writing = lambda: [name for name in store.names if any((store.directory / name / "open").iterdir())]
    name = eventually(writing, 10, "nobody writes")[0]
    dead = transfer_address(store, name)
    store.kill(name)
    writer.stdin.write(data[half:])
    writer.stdin.close()
    assert writer.wait(60) == 0
    eventually(lambda: healed(store, {"/stream": data}, without=[dead]), LOST_AFTER_S + HEALED_S)


def test_a_node_that_comes_back_is_reconciled(roles):
    store = roles()
    files = some_files(store)
    dead = transfer_address(store, "data1")
    store.kill("data1")
    eventually(lambda: healed(store, files, without=[dead]), LOST_AFTER_S + HEALED_S)
    removed = list(files)[::2]
    for path in removed:
        levada(store.fs, "rm", path)
        del files[path]
    more = {f"/more/f{i}": content.make(200_000, 50 + i) for i in range(5)}
    for path, data in more.items():
        put(store, path, data)
    store.start("data1")
    # What others have, or nobody wants, goes from it; what it has and others had not would have been taken back.
    blocks = store.directory / "data1" / "containers"
    left = lambda: sum(1 for folder, _, names in os.walk(blocks) for name in names if name.endswith(".data"))
    eventually(lambda: left() == 0, HEALED_S, "files of replicas are left")
    # A small file is acknowledged by two of three nodes when the third is late, and filled up then.
    eventually(lambda: healed(store, {**files, **more}), HEALED_S, "not all copies are there")


def test_what_only_a_lost_node_has_is_taken_back(roles):
    store = roles(datanodes=3)
    data = content.make(2_500_000, 3)
    put(store, "/single", data, "--replication", 1)
    (only,) = {where for of_block in replicas(store, "/single") for where, _ in of_block} or {None}
    name = next(name for name in store.names if transfer_address(store, name) == only)
    store.kill(name)
    time.sleep(LOST_AFTER_S + 3)
    assert any(got is None for of_block in replicas(store, "/single") for _, got in of_block)
    store.start(name)
    eventually(lambda: healed(store, {"/single": data}, count=1), HEALED_S)


def test_setrep_up_and_down(roles):
    store = roles()
    files = {f"/rep/f{i}": content.make(length, i) for i, length in enumerate((700, 70_000, 3_000_000))}
    for path, data in files.items():
        put(store, path, data)
    for count in (4, 2, 1, 3):
        for path in files:
            levada(store.fs, "setrep", count, path)
        eventually(lambda: healed(store, files, count=count), HEALED_S, f"not {count} everywhere")


def test_a_replica_that_vanished_comes_back(roles):
    """A node starts with an empty disk under its name: all its replicas are gone, and nobody said so."""
    store = roles(datanodes=3)
    files = some_files(store)
    store.kill("data3")
    kept = (store.directory / "data3" / "VERSION").read_bytes()
    shutil.rmtree(store.directory / "data3")
    (store.directory / "data3").mkdir()
    (store.directory / "data3" / "VERSION").write_bytes(kept)
    store.start("data3")
    eventually(lambda: healed(store, files), HEALED_S)


def test_a_damaged_replica_is_replaced(roles):
    store = roles(datanodes=3)
    data = content.make(3 * paths.BLOCK, 9)
    put(store, "/bad", data)
    victim = next((store.directory / "data1" / "containers").rglob("*.data"))
    with open(victim, "r+b") as file:
        file.seek(100_000)
        file.write(b"damage")
    inode = victim.stat().st_ino
    # Readers tell of it: whichever of them meets it.
    reading = lambda: levada(store.fs, "get", "/bad", "-", text=False).stdout == data and victim.stat().st_ino != inode
    eventually(reading, HEALED_S, "the damaged file is still there")
    assert healed(store, {"/bad": data})
