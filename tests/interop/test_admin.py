"""What an administrator does with a store at work: look at it, empty a datanode, and wait for what takes a while."""

import json
import shutil
import threading
import time

import pytest

import content
import paths
from cli import levada
from replicas import healed, put, some_files, transfer_address
from roles import Roles
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

LOST_AFTER_S = 3
# A machine of two cores does other things as well.
DONE_S = 90


@pytest.fixture
def roles(tmp_path):
    started = []

    def start(datanodes=4, **settings):
        started.append(Roles(tmp_path / f"roles{len(started)}", datanodes, lost_after_ms=LOST_AFTER_S * 1000, **settings))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def admin(store, *words) -> list[dict]:
    return [json.loads(line) for line in levada(store.fs, "admin", *words, "--json").stdout.splitlines()]


def address_of(store, name) -> str:
    host, port = transfer_address(store, name)
    return f"{host}:{port}"


def datanode(store, name) -> dict:
    (found,) = [line for line in admin(store, "datanode", "list") if line["addr"] == address_of(store, name)]
    return found


def job(store, number) -> dict:
    (found,) = [line for line in admin(store, "jobs") if line["id"] == number]
    return found


def test_a_drained_datanode_can_be_taken_away(roles):
    store = roles()
    files = some_files(store)
    name = "data2"
    gone = transfer_address(store, name)
    assert datanode(store, name)["state"] == "up"
    # Somebody writes all the while.
    more, stop = {}, threading.Event()

    def write():
        for number in range(1000):
            if stop.is_set():
                return
            path, data = f"/during/f{number}", content.make(150_000, number)
            put(store, path, data)
            more[path] = data

    writer = threading.Thread(target=write)
    writer.start()
    try:
        ended = admin(store, "datanode", "drain", address_of(store, name), "--wait")[-1]
    finally:
        stop.set()
        writer.join()
    assert (ended["state"], ended["kind"], ended["left_ms"]) == ("done", "drain", None)
    assert ended["done_bytes"] == ended["total_bytes"] and ended["done_count"] == ended["total_count"] > 0
    found = datanode(store, name)
    assert (found["state"], found["pipelines"], found["containers"]) == ("drained", 0, 0)
    # At this moment, without waiting for anything: it is not needed any more.
    store.kill(name)
    shutil.rmtree(store.directory / name)
    for path, data in {**files, **more}.items():
        assert levada(store.fs, "get", path, "-", text=False).stdout == data, path
    eventually(lambda: healed(store, {**files, **more}, without=[gone]), DONE_S)


def test_draining_waits_for_somebody_to_take_over(roles):
    store = roles(datanodes=3)
    files = some_files(store)
    # Nothing is decided about members before the leader has listened for a while.
    begun = admin(store, "datanode", "drain", address_of(store, "data1"))[0]
    eventually(lambda: job(store, begun["job"])["state"] == "waiting", DONE_S, "it should say that it cannot")
    assert "no other datanode" in job(store, begun["job"])["note"]
    assert healed(store, files), "and nothing is given up meanwhile"
    store.start(store.describe_datanode())
    ended = admin(store, "jobs", "wait", begun["job"])[-1]
    assert ended["state"] == "done"
    assert healed(store, files, without=[transfer_address(store, "data1")])
    assert datanode(store, "data1")["state"] == "drained"
    admin(store, "datanode", "resume", begun["id"][:8])
    assert datanode(store, "data1")["state"] == "up"
    refused = levada(store.fs, "admin", "datanode", "drain", "nobody:1", check=False)
    assert refused.returncode != 0 and "no datanode is called nobody:1" in refused.stderr


def test_a_drain_can_be_stopped(roles):
    store = roles(datanodes=3)
    some_files(store)
    begun = admin(store, "datanode", "drain", address_of(store, "data1"))[0]
    assert datanode(store, "data1")["state"] == "draining"
    admin(store, "jobs", "stop", begun["job"])
    assert job(store, begun["job"])["state"] == "stopped"
    assert datanode(store, "data1")["state"] == "up"
    assert levada(store.fs, "admin", "jobs", "wait", begun["job"], check=False).returncode != 0


def test_what_there_is_can_be_listed(roles):
    store = roles(datanodes=3)
    data = content.make(2 * paths.BLOCK + 5, 1)
    put(store, "/a/file", data)
    pipelines, containers = admin(store, "pipelines"), admin(store, "containers")
    everybody = sorted(address_of(store, name) for name in store.names)
    assert any(sorted(line["members"]) == everybody and line["wanted"] == 3 and line["live"] == 3 for line in pipelines)
    ids = {line["id"] for line in pipelines}
    assert containers and all(line["pipeline"] in ids and line["state"] == "open" and line["whole"] for line in containers)
    assert admin(store, "under-replicated") == []
    # For people, and without a store that does what they ask.
    assert "MEMBERS" in levada(store.fs, "admin", "pipelines").stdout.splitlines()[0]
    assert "up" in levada(store.fs, "admin", "datanode", "list").stdout.splitlines()[1]
    assert levada(store.fs, "admin", "jobs").stdout
    denied = levada(store.fs, "admin", "datanode", "list", check=False, user="somebody")
    assert denied.returncode != 0 and "Superuser" in denied.stderr
    # Blocks of which the only copy is away are named, with their file, and taken back.
    put(store, "/single", data, "--replication", 1)
    from replicas import replicas

    (only,) = {where for of_block in replicas(store, "/single") for where, _ in of_block}
    name = next(name for name in store.names if transfer_address(store, name) == only)
    store.kill(name)

    def named():
        lines = admin(store, "under-replicated")
        return {line["path"] for line in lines if line["trouble"] == "missing"} == {"/single"}

    eventually(named, LOST_AFTER_S + DONE_S, "the lost blocks are not named")
    assert "/single" in levada(store.fs, "admin", "under-replicated").stdout
    store.start(name)
    eventually(lambda: admin(store, "under-replicated") == [], DONE_S, "they are not taken back")
