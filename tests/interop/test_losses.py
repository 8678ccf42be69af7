"""Each datanode is lost under each client: killed, stopped, cut off, wherever it stands in the chain, while the client
writes and reads.

    LEVADA_LOSS_ROUNDS=20                # losses of each kind; as many as show every case once, when it does not say
    LEVADA_LOSS_REPORT=FILE             # keeps each case: how long the client paused, and when all was replicated again

Two clients cannot go on by themselves, with any server, and the test holds them to what they can do:

- Go never repairs a chain ("BlockWriter currently has no ability to recover from write failures"). It must say so, and
  what it had flushed must be in the file.
- hdfs-native waits for an ack for 60 s, whatever it is told, and gives up when the first node of a new block does not
  answer: where a writer's first node stops or is cut off, or one that is in its next block, nobody can help. It must go
  on when that one is back, or have kept what it flushed. Its hsync does not wake up when the chain breaks while it
  waits: it is called before the loss alone. Its reader tries a block's first node again with every read, and waits for
  it: it reads all that is left at once.
"""

import json
import os
import random
import re
import threading
import time

import pytest

import content
from cli import levada
from clients import FAILURES, GoApi, JavaApi, NativeApi, Ours
from java import JavaError
from rawdata import Names
from replicas import LOST_AFTER_S, replica
from roles import Roles, Wired
from store import PATIENCE, SUPERUSER, eventually

ROUNDS = int(os.environ.get("LEVADA_LOSS_ROUNDS", 0))
FAULTS = ["kill", "stop", "cut"]
REPORT = os.environ.get("LEVADA_LOSS_REPORT")
# Losses after which every case must have been seen; each shows several.
ROUNDS_MAX = max(ROUNDS, 12)

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300 + 60 * ROUNDS_MAX)]

DATANODES, STREAMS = 5, 2
# From the limit on: a round of the leader, the copies, and other things. The report says what it was.
HEALED_S = 60
BLOCK, READ_BLOCK, PIECE = 3 << 19, 3 << 20, 64 << 10
# Written before and after the loss: into the second block, and into a third one. `levada put` takes its input in pieces
# of 1 MiB.
BEFORE, AFTER = 2 << 20, (2 << 20) + 77_777

# As somebody sets them who does not want to wait for a minute. Java adds five seconds for each node of a chain.
# hdfs-native does not, and a first node needs two seconds to say that the second one does not answer.
JAVA_CONF = {"dfs.client.socket-timeout": 2000}
NATIVE_CONF = {"dfs.client.socket-timeout": 6000}
GO_PATIENCE = "4s"
# A client that can go on by itself has gone on by then, and on a busy machine somewhat later.
DONE_S = {"levada": 25, "java": 60, "hdfs-native": 40, "go": 40}
# How long the others are looked at.
FUTILE_S = 8
# What is asked of our client: a stream that lost a node goes on within three seconds. On a machine that lets processes
# wait for seconds those streams pause as long that lost nothing; the report says what it was.
OUR_PAUSE_S = 3 * PATIENCE + 5

CASES = [(client, "write", place) for client in DONE_S for place in (1, 2, 3)] + [
    (client, "read", 1) for client in DONE_S
]


class Stream:
    """A file of one client under which a node is lost, and what became of it."""

    def __init__(self, client, kind: str, path: str, data: bytes):
        self.client, self.kind, self.path, self.data = client, kind, path, data
        self.place, self.flushed = 0, 0
        self.pause = 0.0
        self.done = self.error = None

    def begin(self):
        for left in reversed(range(3)):
            try:
                return self.try_to_begin()
            except FAILURES:
                # A machine that lets a datanode wait for two seconds costs it its place in its chains, which Go never
                # repairs.
                if (self.client.name, self.kind) != ("go", "write") or not left:
                    raise
                self.path += "-again"

    def try_to_begin(self):
        if self.kind == "write":
            self.stream = self.client.writer(self.path, BLOCK)
            self.stream.write(self.data[:BEFORE])
            self.flushed = BEFORE if self.stream.flush() else 0
        else:
            self.stream = self.client.reader(self.path)
            self.got = self.stream.read(PIECE)

    def go_on(self, moment: float):
        self.thread = threading.Thread(target=self.finish, args=(moment,), daemon=True)
        self.thread.start()

    def finish(self, moment):
        try:
            self.write_rest() if self.kind == "write" else self.read_rest()
            self.timed(self.stream.close)
        except FAILURES as error:
            self.error = error
        self.done = time.monotonic() - moment

    def write_rest(self):
        for at in range(BEFORE, len(self.data), PIECE):
            self.timed(lambda: self.write_piece(self.data[at : at + PIECE]))

    def write_piece(self, piece):
        self.stream.write(piece)
        if self.client.name != "hdfs-native":
            self.stream.flush()

    def read_rest(self):
        length = len(self.data) if self.client.name == "hdfs-native" else PIECE
        while piece := self.timed(lambda: self.stream.read(length)):
            self.got += piece
        assert self.got == self.data, f"{self.client.name} read {len(self.got)} bytes, and not those that were written"

    def timed(self, what):
        begun = time.monotonic()
        try:
            return what()
        finally:
            self.pause = max(self.pause, time.monotonic() - begun)

    def cannot_go_on(self, fault) -> bool:
        """See above: not by itself."""
        waits = self.client.name == "hdfs-native" and fault != "kill" and self.place not in (2, 3)
        return self.kind == "write" and (waits or self.client.name == "go")

    def __str__(self):
        seconds = self.done and round(self.done, 2)
        return f"{self.client.name} {self.kind}s {self.path}, place {self.place}: {seconds} s, {self.error!r}"


class Losses:
    """One store, over and over."""

    def __init__(self, directory, fault, java):
        self.fault, self.java = fault, java
        kind = Wired if fault == "cut" else Roles
        self.store = kind(directory, DATANODES, lost_after_ms=LOST_AFTER_S * 1000)
        self.names = Names(self.store.fs, SUPERUSER)
        self.by_port = {port: name for name in self.store.names for port in self.store.ports(name)}
        self.clients = [
            Ours(self.store), JavaApi(self.store, java, **JAVA_CONF),
            NativeApi(self.store, **NATIVE_CONF), GoApi(self.store, GO_PATIENCE),
        ]  # fmt: skip
        self.java_fs = self.clients[1].fs
        self.to_read = {
            client.name: (f"/read/{client.name}", content.make(2 * READ_BLOCK + 100_000, n))
            for n, client in enumerate(self.clients)
        }
        levada(self.store.fs, "mkdir", "/read", "/written")
        for path, data in self.to_read.values():
            levada(self.store.fs, "put", "--block-size", READ_BLOCK, "-", path, stdin=data, text=False)
        self.open_cases = set(CASES)
        self.lost_count, self.told = 0, []
        self.random = random.Random(fault)

    def lose_one(self):
        self.lost_count += 1
        streams = [
            Stream(
                client, "write", f"/written/{self.lost_count}-{client.name}-{n}",
                content.make(BEFORE + AFTER, 10 * self.lost_count + n),
            )
            for client in self.clients for n in range(1 if self.fault == "cut" else STREAMS)  # the wires carry less
        ] + [Stream(client, "read", *self.to_read[client.name]) for client in self.clients]  # fmt: skip
        at_once([stream.begin for stream in streams])
        victim = self.choose(streams)
        moment = time.monotonic()
        {"kill": self.store.kill, "stop": self.store.pause, "cut": getattr(self.store, "cut", None)}[self.fault](victim)
        for stream in streams:
            stream.go_on(moment)
        self.wait(streams, moment)
        healed = self.healed(streams, victim, moment)
        self.give_back(victim)
        for stream in streams:
            stream.thread.join(30)
            self.judge(stream)
            case = (stream.client.name, stream.kind, stream.place)
            if stream.place:
                self.open_cases.discard(case)
                figures = {
                    "pause_s": stream.pause,
                    "done_s": stream.done,
                    "healed_s": healed.get(stream.path),
                    "error": stream.error and str(stream.error),
                }
                self.told.append({"fault": self.fault, "client": case[0], "what": case[1], "place": case[2], **figures})
        for stream in streams:
            if stream.kind == "write":
                levada(self.store.fs, "rm", stream.path)

    # --- who is lost

    def choose(self, streams) -> str:
        """The node that shows most of what was not seen yet. Says of each stream where it stands, counted from the
        client."""
        places = {}
        for stream in streams:
            at = self.last_block(stream) if stream.kind == "write" else self.names.blocks(stream.path)[0].block_id
            found = eventually(lambda: self.places(stream.kind, at), 20, f"nobody serves {stream.path}")
            places.update({(stream, name): place for name, place in found.items()})
        fresh = lambda name: {(s.client.name, s.kind, places.get((s, name))) for s in streams} & self.open_cases
        names = self.store.names[:]
        self.random.shuffle(names)
        victim = max(names, key=lambda name: len(fresh(name)))
        for stream in streams:
            stream.place = places.get((stream, victim), 0)
        return victim

    def last_block(self, stream) -> int:
        def second() -> list[int]:
            # `levada put` writes under another name; what is there is `NAME.` and something.
            paths = [stream.path] if stream.client.name != "levada" else self.beside(stream.path)
            return [block.block_id for path in paths for block in self.names.blocks(path)][1:2]

        return eventually(second, 20, f"{stream.path} has no second block")[0]

    def beside(self, path) -> list[str]:
        folder, name = path.rsplit("/", 1)
        return [f"{folder}/{other}" for other in self.java_fs.names(folder) if name in other]

    def places(self, kind, block) -> dict[str, int]:
        """Of the nodes that serve a block, by what they log: the first, second, third of the chain, or the one that is
        read from."""
        found, last = {}, ""
        for name in self.store.names:
            log = (self.store.directory / f"{name}.log").read_text(errors="replace")
            if kind == "write":
                for behind in re.findall(rf"a write stream begins block=blk_{block} mode=Chain behind=(\d)", log):
                    found[name] = 3 - int(behind)
            else:
                for time_ in re.findall(rf"(\S+) .*a read begins block=blk_{block} ", log):
                    last, found = max((last, found), (time_, {name: 1}), key=lambda one: one[0])
        return found if kind == "read" or len(found) == 3 else {}

    # --- what must become of it

    def wait(self, streams, moment):
        for stream in sorted(streams, key=lambda stream: stream.cannot_go_on(self.fault)):
            until = moment + (FUTILE_S if stream.cannot_go_on(self.fault) else DONE_S[stream.client.name] * PATIENCE)
            stream.thread.join(max(0.1, until - time.monotonic()))
            if stream.cannot_go_on(self.fault):
                continue
            assert stream.done is not None, f"{self.fault}: {stream} does not go on"
            assert stream.error is None, f"{self.fault}: {stream}"
            if stream.client.name == "levada":
                assert stream.pause <= OUR_PAUSE_S, f"{self.fault}: {stream} paused for {stream.pause} s"

    def healed(self, streams, victim, moment) -> dict[str, float]:
        """Reads every replica of every file until there are three right ones without the victim; gives when that
        was."""
        left = {stream.path: stream.data for stream in streams if stream.done is not None and stream.error is None}
        found, seen = {}, set()

        def look() -> bool:
            for path in [path for path in left if path not in found]:
                if self.is_whole(path, left[path], victim, seen):
                    found[path] = round(time.monotonic() - moment, 3)
            return len(found) == len(left)

        self.whole(look, LOST_AFTER_S + HEALED_S, f"not healed after {self.fault} of {victim}")
        return found

    def whole(self, look, seconds, says):
        """Waits until `look()` finds all of it; says of each file that is not whole what it lacks."""
        self.why = {}
        try:
            eventually(look, seconds)
        except AssertionError:
            raise AssertionError(f"{says}: {list(self.why.values())}") from None

    def is_whole(self, path, data, victim, seen) -> bool:
        """`seen`: replicas that were read already."""
        at = 0
        for located in self.names.blocks(path):
            nodes = {self.by_port[port]: (host, port) for host, port in located.addresses()}
            # A fourth stays while one that joined lacks a block which a writer left open: Go's, until it is judged.
            if len(nodes) < 3 or victim in nodes:
                self.why[path] = f"{path}: block {located.block_id} at {at} is on {sorted(nodes)}"
                return False
            for name, where in nodes.items():
                if (located.block_id, name) in seen:
                    continue
                try:
                    got = replica(located, where)
                except (OSError, KeyError) as error:
                    self.why[path] = f"{path}: block {located.block_id} at {at} is not readable on {name}: {error!r}"
                    return False
                assert got == data[at : at + located.length], f"{path} at {at} on {name}"
                seen.add((located.block_id, name))
            at += located.length
        self.why[path] = f"{path} has {at} of {len(data)} bytes"
        if at == len(data):
            del self.why[path]
        return at == len(data)

    def give_back(self, victim):
        {"kill": self.store.start, "stop": self.store.go_on, "cut": getattr(self.store, "mend", None)}[self.fault](
            victim
        )

        def heard() -> bool:
            lines = levada(self.store.fs, "admin", "datanode", "list", "--json").stdout.splitlines()
            return all(
                json.loads(line)["silent_ms"] is not None and json.loads(line)["silent_ms"] < 2000 for line in lines
            )

        eventually(heard, 30, f"{victim} is back")
        # The next loss is one loss, not two.
        settled = lambda: all(self.is_whole(path, data, None, set()) for path, data in self.to_read.values())
        self.whole(settled, HEALED_S, f"not all is whole with {victim} again")

    def judge(self, stream):
        """Bytes are as another client reads them."""
        assert stream.done is not None, f"{self.fault}: {stream} does not go on when the node is back"
        if stream.error is None:
            if stream.kind == "write":
                others = self.clients[self.clients.index(stream.client) - 1]
                reader = others.reader(stream.path)
                assert reader.read(len(stream.data) + 1) == stream.data, f"{others.name} reads what {stream} wrote"
                reader.close()
            return
        assert stream.cannot_go_on(self.fault) and stream.kind == "write", f"{self.fault}: {stream}"
        eventually(lambda: self.recovered(stream.path), 60, f"{stream.path} is closed")
        got = self.java_fs.read(stream.path)
        assert len(got) >= stream.flushed and stream.data.startswith(
            got
        ), f"{stream}: {len(got)} of {stream.flushed} flushed bytes"

    def recovered(self, path) -> bool:
        try:
            return self.java_fs.call("recover-lease", path=path)
        except JavaError:
            return False

    def stop(self):
        for client in self.clients:
            client.stop()
        self.store.stop()


def at_once(calls):
    failures = []

    def guarded(call):
        try:
            call()
        except FAILURES as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures


@pytest.mark.parametrize("fault", FAULTS)
def test_each_datanode_is_lost_under_each_client(fault, java, tmp_path, monkeypatch):
    # Their logs tell who stands where.
    monkeypatch.setattr(Roles, "environment", {"RUST_LOG": "warn,openraft=error,datad=debug"})
    losses = Losses(tmp_path / "store", fault, java)
    try:
        while losses.lost_count < ROUNDS or losses.open_cases and losses.lost_count < ROUNDS_MAX:
            losses.lose_one()
        assert not losses.open_cases, f"not seen in {losses.lost_count} losses"
    finally:
        tell(losses)
        losses.stop()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def tell(losses):
    print(f"\n{losses.fault}: {losses.lost_count} losses")
    for case in CASES:
        found = [one for one in losses.told if (one["client"], one["what"], one["place"]) == case]
        done = [one for one in found if one["done_s"] is not None and one["error"] is None]
        line = f"{case[0]:12} {case[1]:5} {case[2]}: {len(found):3} times"
        for figure in ("pause_s", "done_s", "healed_s"):
            if values := [one[figure] for one in done if one[figure] is not None]:
                line += f", {figure} p50 {percentile(values, 0.5):.2f} p99 {percentile(values, 0.99):.2f}"
        errors = [one["error"] for one in found if one["error"]]
        print(line + (f"; {len(errors)} gave up: {errors[0].splitlines()[0][:100]}" if errors else ""))
    if REPORT:
        with open(REPORT, "a") as out:
            out.writelines(json.dumps(one) + "\n" for one in losses.told)
