"""How many blocks have too few copies is counted once: fsck, dfsadmin, the client's calls, `/metrics`, `/status`, the
jobs and `levada admin` tell the same, also where nobody can make the copies."""

import json
import os
import re
import subprocess
import urllib.request

import pytest

import content
import paths
from cli import levada
from rawdata import Names
from replicas import LOST_AFTER_S, put, roles, transfer_address
from store import SUPERUSER, eventually
from test_admin import DONE_S, address_of, admin, flip, job
from test_fsck import fsck
from test_tools import tool

pytestmark = [pytest.mark.levada, pytest.mark.timeout(600)]


def told(store) -> dict[str, tuple]:
    """Blocks under-replicated and missing, as each way of asking tells them."""
    said = {}
    lines = admin(store, "under-replicated")
    of = lambda trouble: len({line["block"] for line in lines if line["trouble"] == trouble})
    said["levada admin under-replicated"] = (of("short"), of("missing"))
    text = levada(store.fs, "admin", "under-replicated").stdout
    said["its last lines"] = tuple(
        int(number) for number in re.search(r"(\d+) blocks under-replicated.* (\d+) missing", text).groups()
    )
    names = Names(store.fs, SUPERUSER)
    field = lambda method, *numbers: tuple(names.call(method).get(number, [0])[0] for number in numbers)
    said["getFsStats"] = field("getFsStats", 4, 6)
    said["getFsReplicatedBlockStats"] = field("getFsReplicatedBlockStats", 1, 3)
    fetch = lambda path: urllib.request.urlopen(f"http://{store.http}{path}", timeout=20).read().decode()
    blocks = json.loads(fetch("/status"))["blocks"]
    said["/status"] = (blocks["under_replicated"], blocks["missing"])
    gauge = lambda name: int(re.search(rf"(?m)^levada_{name}_blocks (\d+)", fetch("/metrics"))[1])
    said["/metrics"] = (gauge("under_replicated"), gauge("missing"))
    return said


def told_by_java(store) -> dict[str, tuple]:
    number = lambda name, text: int(re.search(rf"(?m)^\s*{name}:\s*(\d+)", text)[1])
    _, checked = fsck(store.fs, store.http, "/")
    # fsck tells apart what has damaged copies, and no other.
    gone = number("Missing blocks", checked) + number("Corrupt blocks", checked)
    code, report = tool(store, "dfsadmin", "-report")
    assert code == 0, report
    return {
        "fsck": (number("Under-replicated blocks", checked), gone),
        "dfsadmin -report": (number("Under replicated blocks", report), number("Missing blocks", report)),
    }


def all_tell(store, short: int, missing: int):
    def agree():
        said = told(store)
        return set(said.values()) == {(short, missing)} or print(said)

    eventually(agree, LOST_AFTER_S + DONE_S, f"not all tell of {short} and {missing}", every=1)
    by_java = told_by_java(store)
    assert set(by_java.values()) == {(short, missing)}, by_java
    assert set(told(store).values()) == {(short, missing)}, "and they still do"


def repair(store) -> dict | None:
    lines = [line for line in admin(store, "jobs") if line["kind"] == "repair"]
    return lines[-1] if lines else None


def test_more_copies_are_asked_for_than_there_are_datanodes(roles):
    store = roles(datanodes=2)
    put(store, "/three", content.make(2 * paths.BLOCK + 5, 1))
    put(store, "/two", content.make(paths.BLOCK, 2), "--replication", 2)
    put(store, "/one", content.make(paths.BLOCK, 3), "--replication", 1)
    all_tell(store, 3, 0)
    waits = (
        lambda: (line := repair(store))
        and line["state"] == "waiting"
        and "3 blocks are under-replicated" in line["note"]
    )
    eventually(waits, LOST_AFTER_S + DONE_S, "no job says that the copies wait")
    assert "no datanode can take the copies" in levada(store.fs, "admin", "under-replicated").stdout
    # Files that were given more.
    levada(store.fs, "setrep", 3, "/two")
    all_tell(store, 4, 0)
    name = store.describe_datanode()
    store.start(name)
    all_tell(store, 0, 0)
    eventually(lambda: repair(store)["state"] == "done", DONE_S, "the job does not end")


def test_a_datanode_is_lost_and_nobody_can_take_its_place(roles):
    store = roles(datanodes=3)
    data = content.make(3 * paths.BLOCK, 1)
    put(store, "/three", data)
    put(store, "/one", content.make(paths.BLOCK, 2), "--replication", 1)
    (where,) = Names(store.fs, SUPERUSER).blocks("/one")[0].addresses()
    name = next(name for name in store.names if transfer_address(store, name) == where)
    all_tell(store, 0, 0)
    store.kill(name)
    all_tell(store, 3, 1)
    # The same under a metadata server that has just begun.
    store.kill("meta")
    store.http = store.start("meta")["http"]
    all_tell(store, 3, 1)
    store.start(name)
    all_tell(store, 0, 0)


def test_damaged_copies_are_corrupt_until_they_are_replaced(roles):
    store = roles(datanodes=3)
    data = content.make(300_000, 5)
    put(store, "/only", data, "--replication", 1)
    assert [place for name in store.names for place in flip(store, data, name, every=1000)]
    assert admin(store, "scrub", "--wait")[-1]["found"] == 1
    all_tell(store, 0, 1)
    assert "1 corrupt" in levada(store.fs, "admin", "under-replicated").stdout
    code, report = tool(store, "dfsadmin", "-report")
    assert code == 0 and re.search(r"(?m)^\s*Blocks with corrupt replicas: 1$", report), report


def test_a_datanode_that_is_down_can_be_drained(roles):
    store = roles(datanodes=4)
    put(store, "/three", content.make(3 * paths.BLOCK, 1))
    name = "data2"
    store.kill(name)
    ident = next(line["id"] for line in admin(store, "datanode", "list") if line["addr"] == address_of(store, name))
    number = admin(store, "datanode", "drain", ident[:8])[-1]["job"]
    admin(store, "jobs", "wait", number)
    assert job(store, number)["state"] == "done"
    (line,) = [line for line in admin(store, "datanode", "list") if line["id"] == ident]
    assert line["state"] == "drained"
    all_tell(store, 0, 0)


def test_setrep_says_what_it_waits_for(roles):
    store = roles(datanodes=2)
    put(store, "/two", content.make(2 * paths.BLOCK, 1), "--replication", 2)
    waiting = subprocess.Popen(
        [str(paths.LEVADA), "setrep", "-w", "3", "/two"],
        env={**os.environ, "LEVADA_URL": store.fs}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "only 2 datanodes are up, 3 copies need as many" in waiting.stderr.readline()
    assert "0 of 2 blocks have 3 copies" in waiting.stderr.readline()
    store.start(store.describe_datanode())
    assert waiting.wait(DONE_S * 2) == 0
    all_tell(store, 0, 0)
