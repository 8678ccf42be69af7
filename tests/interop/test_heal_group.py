"""Healing while the metadata server that leads is killed: it goes on under the next one, and what was asked for is not
forgotten."""

import json
import time

import pytest

import content
import paths
import replicas
from cli import levada
from group import Group
from rawdata import Refused
from replicas import LOST_AFTER_S, transfer_address
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(400)]

# From the loss on: another leader, which listens first, the copies at the rate below, and a machine of two cores that
# does other things as well.
HEALED_S = 120
# Bytes a second that a node copies: slow enough that a leader can be killed while it does.
COPY_RATE = 2 << 20


class Seen:
    """The store as it is told of by one address."""

    def __init__(self, fs: str):
        self.fs = fs


def healed(group, files, without=()) -> bool:
    """By the server that leads now. On a busy machine another one may come to lead between two questions: then it is
    not known yet."""
    leader = int(group.leader().removeprefix("meta"))
    try:
        return replicas.healed(Seen("hdfs://" + group.addrs[leader - 1]), files, without=without)
    except (Refused, OSError):
        return False


@pytest.fixture
def group(tmp_path):
    rows = f"limits = {{ copy_len_per_s = {COPY_RATE} }}\n"
    made = Group(tmp_path / "group", datanodes=4, data_rows=rows, lost_after_ms=LOST_AFTER_S * 1000)
    yield made
    made.stop()


def admin(group, *words) -> list[dict]:
    return [json.loads(line) for line in levada(group.url, "admin", *words, "--json").stdout.splitlines()]


def job(group, number) -> dict:
    (found,) = [line for line in admin(group, "jobs") if line["id"] == number]
    return found


def some(group, megabytes: int) -> dict:
    files = {f"/group/f{i}": content.make(paths.BLOCK * 3 // 2, i) for i in range(megabytes * 2 // 3)}
    files |= {f"/group/small{i}": content.make(5000 + i, 100 + i) for i in range(20)}
    for path, data in files.items():
        replicas.put(Seen(group.url), path, data)
    return files


def kill_leader(group) -> str:
    leader = group.leader()
    group.kill(leader)
    return leader


def test_healing_goes_on_under_the_next_leader(group):
    files = some(group, 30)
    dead = transfer_address(group, "data2")
    group.kill("data2")

    def copying():
        running = [line for line in admin(group, "jobs") if line["kind"] == "repair" and line["state"] == "running"]
        return running and 0 < running[0]["done_bytes"] < running[0]["total_bytes"]

    eventually(copying, 60, "nothing is copied", every=0.1)
    fallen = kill_leader(group)
    # The next one says nothing of a loss before it has listened itself, and nothing false.
    assert group.leader() != fallen
    eventually(lambda: healed(group, files, without=[dead]), HEALED_S, "not healed under the next leader")
    for path, data in files.items():
        assert levada(group.url, "get", path, "-", text=False).stdout == data, path
    eventually(lambda: admin(group, "under-replicated") == [], 60, "something is still short")
    running = lambda: [line for line in admin(group, "jobs") if line["state"] in ("running", "waiting")]
    eventually(lambda: not running(), 60, "a job does not end")
    group.start(fallen)
    group.settled()
    eventually(lambda: healed(group, files, without=[dead]), HEALED_S, "what was healed is not named any more")


def test_what_was_asked_for_is_not_forgotten(group):
    """A drain and a scrub are under way when their leader is killed: they go on under their numbers, and how they ended
    outlives another one."""
    files = some(group, 20)
    host, port = transfer_address(group, "data3")
    # Slow enough to outlast an election on a busy machine; and the drain, which takes some seconds, is looked at as
    # soon as it has begun.
    scrub = admin(group, "scrub", "--rate", 1 << 19)[-1]["job"]
    drain = admin(group, "datanode", "drain", f"{host}:{port}")[-1]["job"]
    assert {line["state"] for line in admin(group, "jobs") if line["id"] in (drain, scrub)} <= {"running", "waiting"}
    time.sleep(2)
    ran = job(group, scrub)["ran_ms"]
    fallen = kill_leader(group)
    group.leader()
    found = job(group, scrub)
    assert (found["kind"], found["state"]) == ("scrub", "running") and found["ran_ms"] >= ran
    assert (job(group, drain)["kind"], job(group, drain)["subject"]) == ("drain", subject(group, host, port))
    assert "under way" in levada(group.url, "admin", "scrub", check=False).stderr
    group.start(fallen)
    for number in (drain, scrub):
        eventually(lambda: job(group, number)["state"] == "done", HEALED_S, f"job {number} does not end")
    before = {number: job(group, number) for number in (drain, scrub)}
    assert before[scrub]["done_bytes"] > 0 and "no damage" in before[scrub]["note"]
    group.settled()
    fallen = kill_leader(group)
    group.leader()
    for number in (drain, scrub):
        after = job(group, number)
        for key in ("kind", "subject", "state", "note", "done_bytes", "done_count"):
            assert after[key] == before[number][key], key
    (state,) = [line["state"] for line in admin(group, "datanode", "list") if line["addr"] == f"{host}:{port}"]
    assert state == "drained"
    group.kill("data3")
    for path, data in files.items():
        assert levada(group.url, "get", path, "-", text=False).stdout == data, path
    eventually(lambda: healed(group, files, without=[(host, port)]), HEALED_S, "not all are on the nodes that stayed")


def subject(group, host, port) -> str:
    (found,) = [line["id"] for line in admin(group, "datanode", "list") if line["addr"] == f"{host}:{port}"]
    return found
