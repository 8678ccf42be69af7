"""Healing while the metadata server that leads is killed: it goes on under the next one, and what was asked for is not forgotten."""

import json
import time

import pytest

import content
import paths
from cli import levada
from group import Group
from replicas import LOST_AFTER_S, healed, put, transfer_address
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(400)]

# From the loss on: another leader, which listens first, the copies at the rate below, and a machine of two cores that does other things as well.
HEALED_S = 120
# Bytes a second that a node copies: slow enough that a leader can be killed while it does.
COPY_RATE = 2 << 20


class Seen:
    """The store as the helpers see it: by the server that leads now."""

    def __init__(self, group):
        self.group, self.directory, self.names = group, group.directory, group.names

    @property
    def fs(self):
        return "hdfs://" + self.group.addrs[int(self.group.leader().removeprefix("meta")) - 1]


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


def some(store, megabytes: int) -> dict:
    files = {f"/group/f{i}": content.make(paths.BLOCK * 3 // 2, i) for i in range(megabytes * 2 // 3)}
    files |= {f"/group/small{i}": content.make(5000 + i, 100 + i) for i in range(20)}
    for path, data in files.items():
        put(store, path, data)
    return files


def kill_leader(group) -> str:
    leader = group.leader()
    group.kill(leader)
    return leader


def test_healing_goes_on_under_the_next_leader(group):
    store = Seen(group)
    files = some(store, 30)
    dead = transfer_address(group, "data2")
    group.kill("data2")

    def copying():
        running = [line for line in admin(group, "jobs") if line["kind"] == "repair" and line["state"] == "running"]
        return running and 0 < running[0]["done_bytes"] < running[0]["total_bytes"]

    eventually(copying, 60, "nothing is copied", every=0.1)
    fallen = kill_leader(group)
    # The next one says nothing of a loss before it has listened itself, and nothing false.
    assert group.leader() != fallen
    eventually(lambda: healed(store, files, without=[dead]), HEALED_S, "not healed under the next leader")
    for path, data in files.items():
        assert levada(group.url, "get", path, "-", text=False).stdout == data, path
    eventually(lambda: admin(group, "under-replicated") == [], 60, "something is still short")
    running = lambda: [line for line in admin(group, "jobs") if line["state"] in ("running", "waiting")]
    eventually(lambda: not running(), 60, "a job does not end")
    group.start(fallen)
    group.settled()
    assert healed(store, files, without=[dead])


def test_what_was_asked_for_is_not_forgotten(group):
    """A drain and a scrub are under way when their leader is killed: they go on under their numbers, and how they ended outlives another one."""
    store = Seen(group)
    files = some(store, 20)
    host, port = transfer_address(group, "data3")
    drain = admin(group, "datanode", "drain", f"{host}:{port}")[-1]["job"]
    scrub = admin(group, "scrub", "--rate", 1 << 20)[-1]["job"]
    assert {job(group, number)["state"] for number in (drain, scrub)} <= {"running", "waiting"}
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
    assert healed(store, files, without=[(host, port)])


def subject(group, host, port) -> str:
    (found,) = [line["id"] for line in admin(group, "datanode", "list") if line["addr"] == f"{host}:{port}"]
    return found
