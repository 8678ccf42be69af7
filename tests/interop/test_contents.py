"""Sealed containers: their members are compared by what their replicas hold, by a hash tree over the checksums."""

import json
import os
import pathlib

import pytest

import content
import paths
from cli import levada
from replicas import healed, put, roles
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

SEALED_S = 60
CHUNK = 512


def admin(store, *words) -> list[dict]:
    return [json.loads(line) for line in levada(store.fs, "admin", *words, "--json").stdout.splitlines()]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(store) -> list[dict]:
    return [line for line in admin(store, "containers") if line["state"] == "sealed"]


def forge(file: pathlib.Path, chunk: int) -> tuple[bytes, bytes]:
    """Changes a chunk and its checksum, so that they agree. Answers what both files were like."""
    sums = file.with_suffix(".sums")
    before = file.read_bytes(), sums.read_bytes()
    data = bytearray(before[0][chunk * CHUNK : (chunk + 1) * CHUNK])
    data[7] ^= 0x20
    with open(file, "r+b") as at:
        at.seek(chunk * CHUNK)
        at.write(data)
    with open(sums, "r+b") as at:
        at.seek(64 + 4 * chunk)
        assert at.read(4) == crc32c(before[0][chunk * CHUNK : (chunk + 1) * CHUNK]).to_bytes(4, "big")
        at.seek(64 + 4 * chunk)
        at.write(crc32c(data).to_bytes(4, "big"))
    return before


def test_replicas_that_differ_and_verify_are_named(roles):
    store = roles(datanodes=3, container_len=3 << 20, lease_soft_ms=3000)
    files = {f"/sealed/f{i}": content.make(paths.BLOCK, i) for i in range(8)}
    files |= {f"/sealed/small{i}": content.make(3000 + i, 50 + i) for i in range(30)}
    for path, data in files.items():
        put(store, path, data)

    def compared(how):
        lines = sealed(store)
        return lines and all(line["compared"] == how for line in lines) and lines

    alike = eventually(lambda: compared("alike"), SEALED_S, "no sealed container is compared")
    roots = {line["id"]: line["root"] for line in alike}
    assert all(len(root) == 32 for root in roots.values())
    # Of one replica the bytes change, and its checksums with them: its own node finds nothing wrong.
    homes = {str(number) for number in roots}
    folder = store.directory / "data2" / "containers"
    victim = next(file for file in sorted(folder.rglob("*.data")) if file.parent.name in homes)
    block, before = int(victim.stem), forge(victim, 3)
    ended = admin(store, "scrub", "--wait")[-1]
    assert (ended["state"], ended["found"]) == ("done", 0)

    def named():
        lines = admin(store, "under-replicated")
        return [line for line in lines if line["trouble"] == "contradictory"]

    (found,) = eventually(named, SEALED_S, "the contradiction is not named")
    assert (found["block"], found["path"] in files) == (block, True)
    (line,) = [line for line in sealed(store) if line["compared"] == "differ"]
    assert line["id"] == found["container"] == int(victim.parent.name) and line["root"] is None
    assert "contradictory replicas" in (store.directory / "meta.log").read_text()
    assert "contradictory" in levada(store.fs, "admin", "under-replicated").stdout
    # Put back as it was, it is found to be alike again, to the same root.
    for file, data in zip((victim, victim.with_suffix(".sums")), before):
        file.write_bytes(data)
    assert admin(store, "scrub", "--wait")[-1]["state"] == "done"
    eventually(lambda: not named() and compared("alike"), SEALED_S, "it is still called contradictory")
    assert {line["id"]: line["root"] for line in sealed(store)}.items() >= roots.items()
    assert healed(store, files)


def test_a_replica_whose_checksums_rotted_is_replaced(roles):
    """Neither its bytes changed nor what the index says of it. Its node's tree differs, and then it fails its own
    checksums."""
    store = roles(datanodes=3, container_len=3 << 20, lease_soft_ms=3000)
    files = {f"/sealed/f{i}": content.make(paths.BLOCK, i) for i in range(8)}
    for path, data in files.items():
        put(store, path, data)
    alike = lambda: (lines := sealed(store)) and all(line["compared"] == "alike" for line in lines) and lines
    homes = {str(line["id"]) for line in eventually(alike, SEALED_S, "no sealed container is compared")}
    victim = next(
        file for file in sorted((store.directory / "data3" / "containers").rglob("*.sums")) if file.parent.name in homes
    )
    inode = victim.stat().st_ino
    # A restart without the files of its trees: all leaves are made anew.
    store.kill("data3")
    trees = store.directory / "data3" / "trees"
    assert homes <= {file.name for file in trees.iterdir()}
    for file in trees.iterdir():
        os.remove(file)
    with open(victim, "r+b") as at:
        at.seek(64 + 4 * 5)
        at.write(b"rot!")
    # The metadata server as well: it compares what it has not compared yet.
    store.kill("meta")
    store.start("meta")
    store.start("data3")
    eventually(lambda: victim.stat().st_ino != inode, SEALED_S, "the rotten replica is still there")
    eventually(
        lambda: admin(store, "under-replicated") == [] and alike(), SEALED_S + 60, "the containers are not alike again"
    )
    assert healed(store, files)


def folders(store, number) -> set[str]:
    return {entry.name for entry in (store.directory / f"data{number}" / "containers").iterdir()}


def test_containers_whose_blocks_were_all_deleted_go(roles):
    """Also on a datanode that was away when the files were deleted, and comes back when their containers are
    forgotten."""
    store = roles(datanodes=3, container_len=3 << 20, lease_soft_ms=3000)
    files = {f"/emptied/f{i}": content.make(paths.BLOCK, i) for i in range(8)}
    files |= {f"/emptied/small{i}": content.make(3000 + i, 50 + i) for i in range(10)}
    for path, data in files.items():
        put(store, path, data)
    kept = content.make(paths.BLOCK, 99)
    put(store, "/kept", kept)
    known = lambda: {str(line["id"]) for line in admin(store, "containers")}
    several = lambda: len(lines := sealed(store)) > 1 and lines
    full = eventually(several, SEALED_S, "no containers are sealed")
    homes = {str(line["id"]) for line in full}
    assert all(homes <= folders(store, number) for number in (1, 2, 3))
    store.kill("data3")
    levada(store.fs, "rm", "-r", "/emptied")
    gone = eventually(lambda: homes - known(), SEALED_S, "no container is removed")
    eventually(lambda: not any(gone & folders(store, number) for number in (1, 2)), SEALED_S, "their directories stay")
    assert gone <= folders(store, 3), "it was away"
    store.start("data3")
    eventually(lambda: not gone & folders(store, 3), SEALED_S, "what came back with the datanode stays")
    # Whoever leads next knows as much: nothing is taken for strange, and the numbers are not given again.
    store.kill("meta")
    store.start("meta")
    put(store, "/next", kept)
    assert not gone & known() and "replicas of unknown blocks" not in (store.directory / "meta.log").read_text()
    # A datanode that was late to be heard, or stood still for a moment, is filled up.
    eventually(lambda: healed(store, {"/kept": kept, "/next": kept}), SEALED_S, "not all have what is kept")
