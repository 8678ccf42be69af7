"""The machine loses power, at many moments of a store's life: all that was acknowledged is there when it comes back.

One process with all roles works under strace while clients write; then, for moments between any two of its calls, the
directory is made as the disk may have it, a store is started there, and every file is read.
"""

import os
import random
import shutil
import threading
import time

import pytest

import content
import power
from cli import levada
from others import Native, RemoteError
from rawrpc import Connection, fields, message
from store import SUPERUSER, Store, address, eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(900)]

WRITERS = 3
STEPS = 28
CUTS = int(os.environ.get("LEVADA_TEST_CUTS", 24))


class Story:
    """What one writer did in its own directory: (begun, acknowledged, path, bytes or None) in order."""

    def __init__(self, number: int, url: str, scratch, by_command: bool):
        """`by_command`: files are put by `levada put`, which asks for no sync; hdfs-native asks for one at a file's
        end."""
        self.home, self.random, self.scratch = f"/w{number}", random.Random(number), scratch / f"w{number}"
        self.url, self.by_command = url, by_command
        self.native, self.files, self.told, self.error = Native(url, SUPERUSER), {}, [], None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            for step in range(STEPS):
                self.step(step)
        except Exception as error:
            self.error = error
        self.native.stop()

    def step(self, step: int):
        kinds = ["put"] * 5 + (["append", "remove", "rename"] if self.files else [])
        kind = self.random.choice(kinds)
        path = f"{self.home}/{step}"
        if kind == "put":
            size = self.random.choice([0, 1, 700, 5000, 30_000, 70_000, 300_000])
            data = content.make(size, step)
            self.scratch.write_bytes(data)
            if self.by_command:
                self.tell({path: data}, lambda: levada(self.url, "put", self.scratch, path))
            else:
                self.tell({path: data}, "put", path=path, local=str(self.scratch))
            return
        old = self.random.choice(sorted(self.files))
        if kind == "append":
            more = content.make(self.random.choice([1, 300, 5000]), step)
            self.scratch.write_bytes(more)
            self.tell({old: self.files[old] + more}, "append", path=old, local=str(self.scratch))
        elif kind == "remove":
            self.tell({old: None}, "remove", path=old)
        else:
            self.tell({old: None, path: self.files[old]}, "rename", path=old, to=path)

    def tell(self, after: dict, call, **words):
        begun = time.time()
        call() if callable(call) else self.native.call(call, **words)
        self.told.append((begun, time.time(), after))
        self.files.update(after)
        self.files = {path: data for path, data in self.files.items() if data is not None}

    def states(self, cut: float) -> tuple[dict, dict]:
        """The files as acknowledged by then, and what a call that was under way makes of some of them."""
        files = {}
        for begun, ended, after in self.told:
            if begun > cut:
                break
            if ended > cut:
                return files, after
            files.update(after)
        return files, {}


def live(scratch, durability: str, by_command: bool = False) -> tuple[power.Disk, list[Story]]:
    """A store's life, and what its clients were told."""
    root, trace = scratch / "levada", scratch / "trace"
    root.mkdir()
    store = Store(root, "--durability", durability, before=power.watched(trace))
    levada(store.fs, "mkdir", *(f"/w{number}" for number in range(WRITERS)))
    stories = [Story(number, store.fs, scratch, by_command) for number in range(WRITERS)]
    for story in stories:
        story.thread.join()
    time.sleep(3)  # flushes follow
    store.stop()
    for story in stories:
        if story.error:
            raise story.error
    return power.Disk(trace, root), stories


@pytest.mark.parametrize("durability", ["synced", "replicated"])
def test_what_was_acknowledged_outlives_a_loss_of_power(tmp_path, durability):
    """In `replicated` as well: hdfs-native has each file synced before it closes it, and closing must not put that at
    stake."""
    disk, stories = live(tmp_path, durability)
    first = min(story.told[0][0] for story in stories)
    start = next(moment for moment, when in enumerate(disk.times) if when >= first)
    chance = random.Random(1)
    moments = sorted(chance.sample(range(start, len(disk.times)), CUTS))
    print(f"{len(disk.times)} calls, {len(moments)} cuts")
    faults = []
    for seed, moment in enumerate(moments):
        left = tmp_path / "left"
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        mood = disk.leave(moment, seed, left)
        # A client is told after the call that its answer waited for has returned.
        for fault in check(left, stories, disk.times[moment]):
            faults.append(f"seed {seed}, call {moment}, {mood}: {fault}")
    assert not faults, "\n".join(faults[:20])


def test_what_only_memory_had_is_lost_with_the_power(tmp_path):
    """Replicated durability promises no more to who asks for no sync; and were nothing lost here, the test above would
    show nothing."""
    disk, stories = live(tmp_path, "replicated", by_command=True)
    last = max(moment for moment, when in enumerate(disk.times) if when <= max(story.told[-1][1] for story in stories))
    (tmp_path / "left").mkdir()
    disk.leave(last, 0, tmp_path / "left", "none")
    assert check(tmp_path / "left", stories, disk.times[last])


def check(left, stories, cut: float) -> list[str]:
    try:
        store = Store(left)
    except AssertionError as error:
        return [f"the store does not start: {error}"]
    native, faults = Native(store.fs, SUPERUSER), []
    try:
        for story in stories:
            faults.extend(missed(store, native, story, cut, left.parent / "found"))
    finally:
        native.stop()
        store.stop()
    return faults


def missed(store, native, story: Story, cut: float, local) -> list[str]:
    whole, doubtful = story.states(cut)
    faults = []
    for path, data in whole.items():
        if path in doubtful:
            faults.extend(in_doubt(store, native, path, data, doubtful[path], local))
            continue
        found = read(native, path, local)
        if found != data:
            faults.append(f"{path} should be {told(data)} and is {told(found)}")
    for path in doubtful.keys() - whole.keys():
        faults.extend(in_doubt(store, native, path, None, doubtful[path], local))
    return faults


def in_doubt(store, native, path: str, before: bytes | None, after: bytes | None, local) -> list[str]:
    """A call changed the file when the power went: it is as before, or as after, or as far as the call came."""
    try:
        there = native.call("stat", path=path) is not None
    except RemoteError:
        there = False
    if not there:
        return [] if before is None or after is None else [f"{path} is gone, and was never removed"]
    eventually(lambda: closed(store, path), 30, f"{path} is closed")
    found = read(native, path, local)
    least, most = before or b"", after or before or b""
    if isinstance(found, bytes) and len(found) >= len(least) and most.startswith(found):
        return []
    return [f"{path} was {told(before)}, was to be {told(after)}, and is {told(found)}"]


def closed(store, path: str) -> bool:
    with Connection(address(store.fs), SUPERUSER) as connection:
        answer = connection.call(1, "recoverLease", message((1, path), (2, "after the power cut")))
        return fields(answer.body).get(1) == [1]


def read(native, path: str, local):
    try:
        native.call("get", path=path, local=str(local))
        return local.read_bytes()
    except RemoteError as error:
        return None if "not found" in str(error).lower() or "FileNotFound" in str(error) else str(error)


def told(data) -> str:
    return f"{len(data)} bytes" if isinstance(data, bytes) else "absent" if data is None else data
