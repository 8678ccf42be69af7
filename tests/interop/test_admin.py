"""What an administrator does with a store at work: look at it, empty a datanode, and wait for what takes a while."""

import json
import os
import shutil
import subprocess
import threading
import time

import pytest

import content
import paths
from cli import levada
from java import Java
from rawdata import Names
from replicas import LOST_AFTER_S, healed, is_free, put, replicas, roles, some_files, transfer_address
from store import SUPERUSER, eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

# A machine of two cores does other things as well.
DONE_S = 90


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


def test_a_drain_waits_for_streams_that_are_open(roles):
    """Only the drained node has what is being written: it is not to be called empty."""
    store = roles()
    data = content.make(paths.BLOCK + 400_000, 1)
    writer = subprocess.Popen(
        [str(paths.LEVADA), "put", "--block-size", str(4 * paths.BLOCK), "--replication", "1", "-", "/stream"],
        env={**os.environ, "LEVADA_URL": store.fs}, stdin=subprocess.PIPE,
    )  # fmt: skip
    writer.stdin.write(data[: paths.BLOCK])
    writer.stdin.flush()
    writing = lambda: [name for name in store.names if any((store.directory / name / "open").iterdir())]
    (name,) = eventually(writing, 20, "nobody writes")
    time.sleep(LOST_AFTER_S + 1)
    number = admin(store, "datanode", "drain", address_of(store, name))[0]["job"]
    for _ in range(8):
        assert job(store, number)["state"] in ("running", "waiting")
        assert datanode(store, name)["state"] == "draining"
        time.sleep(1)
    writer.stdin.write(data[paths.BLOCK :])
    writer.stdin.close()
    assert writer.wait(60) == 0
    admin(store, "jobs", "wait", number)
    assert datanode(store, name)["state"] == "drained"
    store.kill(name)
    shutil.rmtree(store.directory / name)
    assert levada(store.fs, "get", "/stream", "-", text=False).stdout == data


def left_open(store, path: str) -> bytes:
    """Leaves a file open whose writer is killed when its bytes were flushed. Gives those bytes."""
    with Java(quick=True) as writer:
        out = writer.mount(store.fs, SUPERUSER).create(path)
        data = content.make(700_000)
        out.write(data)
        out.hflush()
    return data


def test_what_a_dead_writer_flushed_outlives_the_nodes_it_was_flushed_to(roles, java):
    """All three are drained while nobody has closed the file: none is let go before its bytes are a block of others."""
    store = roles(datanodes=6)
    data = left_open(store, "/log")
    holding = [
        name for name in store.names if any(not is_free(path) for path in (store.directory / name / "open").iterdir())
    ]
    assert len(holding) == 3
    time.sleep(LOST_AFTER_S + 1)
    numbers = [admin(store, "datanode", "drain", address_of(store, name))[0]["job"] for name in holding]
    for _ in range(8):
        assert all(job(store, number)["state"] in ("running", "waiting") for number in numbers)
        time.sleep(1)
    fs = java.mount(store.fs, SUPERUSER)
    eventually(lambda: fs.call("recover-lease", path="/log"), 60, "the file is closed")
    for number, name in zip(numbers, holding):
        admin(store, "jobs", "wait", number)
        assert datanode(store, name)["state"] == "drained"
    for name in holding:
        store.kill(name)
        shutil.rmtree(store.directory / name)
    assert levada(store.fs, "get", "/log", "-", text=False).stdout == data


def test_what_a_dead_writer_flushed_outlives_absences(roles, java):
    """One after the other is away for longer than is waited for, and comes back: a rolling restart that takes its
    time."""
    store = roles(datanodes=6)
    data = left_open(store, "/log")
    time.sleep(LOST_AFTER_S + 1)
    for name in store.names:
        store.kill(name)
        time.sleep(2 * LOST_AFTER_S)
        store.start(name)
        eventually(lambda: datanode(store, name)["state"] == "up", 30, f"{name} is back")
    fs = java.mount(store.fs, SUPERUSER)
    eventually(lambda: fs.call("recover-lease", path="/log"), 60, "the file is closed")
    assert levada(store.fs, "get", "/log", "-", text=False).stdout == data


def test_draining_waits_for_somebody_to_take_over(roles):
    store = roles(datanodes=3)
    files = some_files(store)
    # Nothing is decided about members before the leader has listened for a while.
    begun = admin(store, "datanode", "drain", address_of(store, "data1"))[0]
    eventually(lambda: "no other" in job(store, begun["job"])["note"], DONE_S, "it should say that it cannot")
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
    assert "levada admin datanode list" in refused.stderr
    refused = levada(store.fs, "admin", "jobs", "stop", "77", check=False)
    assert refused.returncode != 0 and "there is no job 77 (see `levada admin jobs`)" in refused.stderr


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
    assert containers and all(
        line["pipeline"] in ids and line["state"] == "open" and line["whole"] for line in containers
    )
    assert admin(store, "under-replicated") == []
    # For people, and without a store that does what they ask.
    assert "MEMBERS" in levada(store.fs, "admin", "pipelines").stdout.splitlines()[0]
    assert "up" in levada(store.fs, "admin", "datanode", "list").stdout.splitlines()[1]
    assert levada(store.fs, "admin", "jobs").stdout
    denied = levada(store.fs, "admin", "datanode", "list", check=False, user="somebody")
    assert denied.returncode != 0 and "Superuser" in denied.stderr
    # Blocks of which the only copy is away are named, with their file, and taken back.
    put(store, "/single", data, "--replication", 1)
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


def flip(store, data: bytes, name: str, every: int = 1) -> list[tuple]:
    """Flips a bit in every so many chunks of what a datanode stores of these bytes. Answers where, and what was
    there."""
    flipped = []
    for file in (store.directory / name / "containers").rglob("*"):
        if not file.is_file():
            continue
        stored = bytearray(file.read_bytes())
        for block in range(0, len(data), paths.BLOCK):
            of_block = data[block : block + paths.BLOCK]
            begin = stored.find(of_block)
            if begin < 0 or len(of_block) < 64:  # a single byte is found anywhere
                continue
            for chunk in range(0, len(of_block), 512 * every):
                place = begin + chunk + min(100, (len(of_block) - chunk) // 2)
                with open(file, "r+b") as at:
                    at.seek(place)
                    at.write(bytes([stored[place] ^ 4]))
            flipped.append((file, begin, of_block))
    return flipped


def test_one_scrub_finds_and_mends_all_damage(roles):
    store = roles(datanodes=3)
    files = {path: data for path, data in some_files(store).items() if len(data) > 64}
    names = list(store.names)
    # One replica of each, of another node each time; in packs as well as in files of their own.
    damaged = []
    for number, data in enumerate(files.values()):
        damaged += flip(store, data, names[number % 3], every=3)
    assert len(damaged) > len(files), "large files have several blocks"
    assert sum(1 for file, *_ in damaged if file.suffix == ".data") and sum(
        1 for file, *_ in damaged if file.suffix != ".data"
    )
    ended = admin(store, "scrub", "--wait")[-1]
    assert (ended["state"], ended["found"], ended["mended"]) == ("done", len(damaged), len(damaged)), ended
    assert ended["done_bytes"] == ended["total_bytes"] >= 3 * sum(map(len, files.values()))
    assert healed(store, files), "every replica reads well from its own node"
    again = admin(store, "scrub", "--wait")[-1]
    assert (again["found"], again["note"]) == (0, "no damage")
    assert admin(store, "under-replicated") == []


def test_damage_is_never_served_and_readers_have_it_mended(roles):
    store = roles(datanodes=3)
    files = some_files(store)
    damaged = []
    for number, data in enumerate(files.values()):
        damaged += flip(store, data, store.names[number % 3], every=2)

    def wrong() -> list[str]:
        return [
            path
            for path, data in files.items()
            if any(got != data[at : at + len(got or b" ")] for at, got in each(path))
        ]

    def each(path):
        """Where a block begins, and what each of its nodes gives."""
        at = 0
        for of_block in replicas(store, path):
            yield from ((at, got) for _, got in of_block)
            at += len(of_block[0][1])

    def mended() -> bool:
        """Nobody but readers looks at replicas: the background begins minutes after a start."""
        for path, data in files.items():
            assert levada(store.fs, "get", path, "-", text=False).stdout == data, path
        return not wrong()

    assert damaged and wrong()
    eventually(mended, DONE_S, "readers told of what was damaged", every=0)
    # The last of them may just be replaced.
    eventually(lambda: healed(store, files), DONE_S, "all copies are there again")


def test_a_damaged_only_copy_is_kept_and_named(roles):
    store = roles(datanodes=3)
    data = content.make(300_000, 5)
    put(store, "/only", data, "--replication", 1)
    (damaged,) = [place for name in store.names for place in flip(store, data, name, every=1000)]
    ended = admin(store, "scrub", "--wait")[-1]
    assert (ended["state"], ended["found"], ended["mended"]) == ("done", 1, 0), ended
    assert "no good copy" in ended["note"]
    troubles = {(line["path"], line["trouble"]) for line in admin(store, "under-replicated")}
    assert troubles == {("/only", "missing"), ("/only", "damaged")}
    assert damaged[0].exists(), "what is left of it is not thrown away"


def test_a_scrub_keeps_to_its_rate_and_can_be_stopped(roles):
    store = roles(datanodes=3)
    put(store, "/slow", content.make(6 * paths.BLOCK, 5))
    begun = time.monotonic()
    ended = admin(store, "scrub", "--rate", paths.BLOCK, "--wait")[-1]
    assert ended["state"] == "done"
    assert 4 < time.monotonic() - begun < 60, "six blocks of a second each, on each node"
    number = admin(store, "scrub", "--rate", 1000)[-1]["job"]
    assert "under way" in levada(store.fs, "admin", "scrub", check=False).stderr
    # The rate would let them wait for a quarter of an hour now.
    eventually(lambda: job(store, number)["total_count"] > 0, 20, "a node has begun")
    admin(store, "jobs", "stop", number)
    assert levada(store.fs, "admin", "jobs", "wait", number, check=False).returncode != 0
    assert job(store, number)["state"] == "stopped"
    assert admin(store, "scrub", "--wait")[-1]["state"] == "done"


def test_containers_move_to_an_emptier_datanode(roles):
    store = roles(datanodes=3)
    files = {}
    for number in range(12):
        for replication in (1, 2):
            path, data = f"/balance/{replication}/f{number}", content.make(700_000, 10 * number + replication)
            put(store, path, data, "--replication", replication)
            files.setdefault(replication, {})[path] = data
    name = store.describe_datanode()
    store.start(name)
    used = lambda: {line["addr"]: line["used"] for line in admin(store, "datanode", "list")}
    eventually(lambda: len(used()) == 4, 20)
    # Each node tells with its next heartbeat what it holds.
    stored = sum(replication * len(data) for replication, some in files.items() for data in some.values())
    eventually(lambda: sum(used().values()) >= stored, 20, "the nodes tell of what was put")
    before = used()
    new = address_of(store, name)
    assert before[new] == 0
    eventually(
        lambda: "just begun" not in levada(store.fs, "admin", "balance", "--within", 100, check=False).stderr, 30
    )
    levada(store.fs, "admin", "safemode", "enter")
    number = admin(store, "balance", "--within", 0)[-1]["job"]
    eventually(lambda: job(store, number)["total_count"] > 0, 20, "it is planned")
    time.sleep(3)  # rounds are a second apart
    assert job(store, number)["done_count"] == 0 and used()[new] == 0, "no container moves in safe mode"
    levada(store.fs, "admin", "safemode", "leave")
    ended = admin(store, "jobs", "wait", number)[-1]
    assert (ended["state"], ended["kind"]) == ("done", "balance"), ended
    assert ended["done_count"] == ended["total_count"] > 0 and ended["done_bytes"] == ended["total_bytes"] > 0
    assert "read back" in ended["note"]
    # What went is deleted where it was: there are as many replicas as before, and the new node has its part of them.
    whole = sum(before.values())
    # A node reports what its disks said in their last look, so the job may have ended before these figures say so.
    moved = lambda now: now[new] > 0.4 * whole / 4 and abs(sum(now.values()) - whole) < 0.02 * whole
    eventually(lambda: moved(used()), DONE_S, "what was moved is there, and deleted where it was")
    after = used()
    assert moved(after), (before, after)
    assert max(after.values()) <= max(before.values()), (before, after)
    for replication, some in files.items():
        assert healed(store, some, count=replication)
    assert admin(store, "under-replicated") == []
    assert "no number" in levada(store.fs, "admin", "balance", "--within", "half", check=False).stderr


def test_stock_reports_count_what_is_wrong(roles):
    store = roles(datanodes=3)
    data = content.make(2 * paths.BLOCK, 1)
    put(store, "/counted", data, "--replication", 1)
    put(store, "/sound", data)
    stats = lambda: [Names(store.fs, SUPERUSER).call("getFsStats").get(field, [0])[0] for field in (4, 5, 6)]
    assert stats() == [0, 0, 0]
    (only,) = {where for of_block in replicas(store, "/counted") for where, _ in of_block}
    name = next(name for name in store.names if transfer_address(store, name) == only)
    store.kill(name)
    eventually(lambda: stats()[2] == 2, LOST_AFTER_S + DONE_S, "missing blocks are not counted")
    store.start(name)
    eventually(lambda: stats()[2] == 0, DONE_S, "they are still counted")
