"""Replicas one by one: each that is named is read by itself, from its own node."""

import os

import pytest

import content
import paths
from cli import levada
from rawdata import Names, Transfer
from roles import Roles
from store import SUPERUSER, eventually

# On a machine that does other things as well a heartbeat may come three seconds late.
LOST_AFTER_S = 5


@pytest.fixture
def roles(tmp_path):
    """Starts stores in which a datanode that is silent for LOST_AFTER_S counts as lost."""
    started = []

    def start(datanodes=4, **settings):
        started.append(
            Roles(tmp_path / f"roles{len(started)}", datanodes, lost_after_ms=LOST_AFTER_S * 1000, **settings)
        )
        return started[-1]

    yield start
    for each in started:
        each.stop()


def is_free(path) -> bool:
    """A slot for short open replicas stays when nothing is in it."""
    return path.name.startswith("slot-") and not any(path.read_bytes()[:64])


def put(store, path, data, *options):
    levada(store.fs, "mkdir", "-p", os.path.dirname(path))
    levada(store.fs, "put", "--block-size", paths.BLOCK, *options, "-", path, stdin=data, text=False)


def replica(located, where) -> bytes:
    """All bytes of one replica, as one node gives them."""
    transfer = Transfer(where)
    try:
        transfer.read(located)
        data = b""
        while True:
            packet = transfer.packet()
            if packet.last:
                return data
            data += packet.data
    finally:
        transfer.close()


def replicas(store, path) -> list[list[tuple[tuple[str, int], bytes | None]]]:
    """Of each block: every node that is named, and what it gives."""
    found = []
    for located in Names(store.fs, SUPERUSER).blocks(path):
        of_block = []
        for where in located.addresses():
            try:
                of_block.append((where, replica(located, where)))
            except (OSError, KeyError):
                of_block.append((where, None))
        found.append(of_block)
    return found


def healed(store, files: dict, count=3, without=()):
    """True when each block has `count` replicas, on nodes not among `without`, and all of them are right."""
    for path, data in files.items():
        blocks = replicas(store, path)
        if sum(len(of_block[0][1] or b"") if of_block else 0 for of_block in blocks) != len(data):
            return False
        at = 0
        for of_block in blocks:
            if len(of_block) != count or any(got is None or where in without for where, got in of_block):
                return False
            length = len(of_block[0][1])
            assert all(got == data[at : at + length] for _, got in of_block), path
            at += length
    return True


def write(store, fs, files: dict):
    """Writes them with the Java client, and waits until each has its three copies: a datanode that stood still for two
    seconds, as one may on a busy machine, leaves its chain, and gets its copy later."""
    for path, data in files.items():
        fs.write(path, data)
    eventually(lambda: healed(store, files), 30, "not all have three copies")


def transfer_address(store, name) -> tuple[str, int]:
    for line in (store.directory / f"{name}.toml").read_text().splitlines():
        if line.startswith("xfer_addr"):
            host, port = line.split('"')[1].rsplit(":", 1)
            return host, int(port)
    raise AssertionError(name)


def some_files(store) -> dict:
    files = {
        f"/heal/f{i}": content.make(length, i) for i, length in enumerate((1, 700, 70_000, 1_300_000, 3_000_000) * 3)
    }
    for path, data in files.items():
        put(store, path, data)
    return files
