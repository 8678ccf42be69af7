"""Roles that die and come back one by one, under clients that do not know: restarts, stale replicas, expired leases."""

import random
import threading
import time

import pytest

import content
from cli import levada
from java import Java, JavaError
from replicas import is_free, replicas
from roles import Roles
from store import SUPERUSER, eventually, used

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

SLACK = 4 << 20


@pytest.fixture
def roles(tmp_path):
    made = []

    def start(**settings):
        made.append(Roles(tmp_path / f"store{len(made)}", **settings))
        return made[-1]

    yield start
    for one in made:
        one.stop()


class TestMetadataServer:
    def test_restart_under_an_open_file(self, roles, java):
        """The writer does not notice, if it calls when the server is there again (on a new connection: a client with
        one address does not try a call again)."""
        store = roles()
        fs = java.mount(store.fs, SUPERUSER, {"ipc.client.connection.maxidletime": 500})
        data = content.make(4_000_000)
        out = fs.create("/f")
        out.write(data[:1_500_000])
        out.hflush()
        time.sleep(2)
        store.kill("meta")
        store.start("meta")
        out.write(data[1_500_000:])
        out.close()
        assert fs.read("/f") == data
        assert fs.checksum("/f") == content.md5_of_md5_of_crc(data)

    def test_datanodes_register_again(self, roles, java):
        store = roles()
        fs = java.mount(store.fs, SUPERUSER)
        fs.write("/f", content.make(2_000_000))
        for _ in range(3):
            store.kill("meta")
            store.start("meta")
            fs = java.mount(store.fs, SUPERUSER)
            assert fs.read("/f") == content.make(2_000_000)
            eventually(lambda: fs.call("datanodes") == 3, 20, "three datanodes are known")
            fs.write("/g", content.make(1_200_000), overwrite=True)
            assert len(fs.call("blocks", path="/g")[0]["names"]) == 3

    def test_random_changes_survive(self, roles):
        """Several clients change names at random until the server is killed; what was acknowledged is there, and
        nothing else but perhaps the last call of each."""
        store = roles()
        for life in range(3):
            with Java() as java:
                walkers = [
                    Walker(java.mount(store.fs, SUPERUSER), f"/life{life}-{n}", life * 100 + n) for n in range(6)
                ]
                time.sleep(2.5)
                eventually(lambda: all(walker.steps > 20 for walker in walkers), 60, "all have changed something")
                store.kill("meta")
            store.start("meta")
            with Java() as java:
                fs = java.mount(store.fs, SUPERUSER)
                for walker in walkers:
                    walker.thread.join(60)
                    found = walker.look(fs)
                    assert found in (walker.before, walker.after), walker.difference(found)


class Walker:
    """Changes names below its directory and keeps what must be there: before its last call, and after it."""

    def __init__(self, fs, top, seed):
        self.fs, self.top, self.chance, self.steps = fs, top, random.Random(seed), 0
        self.before = self.after = {}
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.fs.mkdirs(top)
        self.thread.start()

    def run(self):
        names = [f"n{i}" for i in range(8)]
        while True:
            state = dict(self.before)
            a, b = self.chance.sample(names, 2)
            kind = self.chance.choice(["mkdir", "file", "rename", "delete", "mode", "times"])
            below = lambda name, tree: {k: v for k, v in tree.items() if k == name or k.startswith(name + "/")}
            try:
                if kind in ("mkdir", "file"):
                    name = f"{a}/{b}" if state.get(a, "").startswith("dir") and self.chance.random() < 0.5 else a
                    if name in state:
                        continue
                    state[name] = "dir 755 " if kind == "mkdir" else "file 644 5"
                    self.after = state
                    path = f"{self.top}/{name}"
                    self.fs.mkdirs(path) if kind == "mkdir" else self.fs.write(path, b"12345")
                elif kind == "rename":
                    if a not in state or b in state:
                        continue
                    moved = below(a, state)
                    state = {k: v for k, v in state.items() if k not in moved} | {
                        b + k[len(a) :]: v for k, v in moved.items()
                    }
                    self.after = state
                    assert self.fs.rename(f"{self.top}/{a}", f"{self.top}/{b}") is True
                elif kind == "delete":
                    gone = below(a, state)
                    state = {k: v for k, v in state.items() if k not in gone}
                    self.after = state
                    assert self.fs.delete(f"{self.top}/{a}") is bool(gone)
                elif a in state:
                    what, _, length = state[a].split(" ")
                    mode = self.chance.choice(["700", "755", "1777"])
                    state[a] = f"{what} {mode} {length}"
                    self.after = state
                    self.fs.call("set-permission", path=f"{self.top}/{a}", mode=mode)
                self.before = self.after = state
                self.steps += 1
            except JavaError:
                return

    def look(self, fs):
        found, waiting = {}, [self.top]
        while waiting:
            for entry in fs.list(waiting.pop()):
                name = entry["path"].removeprefix(self.top + "/")
                if entry["directory"]:
                    found[name] = f"dir {entry['mode']} "
                    waiting.append(entry["path"])
                else:
                    found[name] = f"file {entry['mode']} {entry['length']}"
        # A file is made in steps; only its last one may be missing, and then it is as in `after` but for its length.
        for name, is_ in self.after.items():
            if is_.startswith("file") and name not in self.before and found.get(name) == is_[:-1] + "0":
                found[name] = is_
        return found

    def difference(self, found):
        pick = lambda tree: set(tree.items())
        return {"more": pick(found) - pick(self.after), "less": pick(self.before) - pick(found)}


class TestDatanode:
    def test_restart_under_a_writer(self, roles, java):
        """The writer goes on with two nodes; the third comes back with a replica of an older generation, which nobody
        is sent to, and which goes."""
        store = roles()
        fs = java.mount(store.fs, SUPERUSER)
        data = content.make(7_000_000)
        out = fs.create("/f", block=16 << 20)
        out.write(data[:2_000_000])
        time.sleep(0.5)  # packets have arrived everywhere
        store.kill("data2")
        out.write(data[2_000_000:5_000_000])
        store.start("data2")
        out.write(data[5_000_000:])
        out.close()
        for _ in range(6):
            assert fs.read("/f") == data
        assert levada(store.fs, "cat", "/f", text=False).stdout == data
        # Another one, which is whole, may have taken its place by then.
        stale = lambda: [path for path in (store.directory / "data2" / "open").iterdir() if not is_free(path)]
        eventually(lambda: not stale(), 120, "the stale replica is gone", every=1)
        assert all(got in (None, data) for of_block in replicas(store, "/f") for _, got in of_block)

    def test_one_that_was_away_hears_of_deletions(self, roles, java):
        store = roles()
        fs = java.mount(store.fs, SUPERUSER)
        empty = used(store.directory / "data1")
        for i in range(10):
            fs.write(f"/d/f{i}", content.make(2_000_000, i))
        store.kill("data1")
        fs.delete("/d")
        eventually(lambda: used(store.directory / "data2") < empty + SLACK, 90, "the others have deleted", every=1)
        assert used(store.directory / "data1") > 20_000_000
        store.start("data1")
        eventually(lambda: used(store.directory / "data1") < empty + SLACK, 90, "so has the one that was away", every=1)

    def test_all_restarted_one_after_the_other(self, roles, java):
        """A rolling restart while somebody reads and writes all the time."""
        store = roles(datanodes=4)
        fs = java.mount(store.fs, SUPERUSER)
        files = {f"/f{i}": content.make(1_500_000, i) for i in range(6)}
        for path, data in files.items():
            fs.write(path, data)
        failures, stop = [], threading.Event()

        def read_and_write(number):
            own = java.mount(store.fs, SUPERUSER)
            i = 0
            while not stop.is_set():
                i += 1
                try:
                    path = f"/f{i % 6}"
                    assert own.read(path) == files[path]
                    own.write(f"/w{number}", content.make(900_000, i), overwrite=True)
                    assert own.read(f"/w{number}") == content.make(900_000, i)
                except Exception as error:
                    failures.append(error)

        threads = [threading.Thread(target=read_and_write, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for name in store.names:
            store.kill(name)
            time.sleep(1)
            store.start(name)
            time.sleep(2)
        stop.set()
        for thread in threads:
            thread.join()
        assert not failures, failures[:2]

    def test_one_that_hangs(self, roles, java):
        """Stopped in its tracks, connections open: readers go elsewhere in the time that clients wait, not for ever."""
        store = roles()
        quick = {
            "dfs.client.socket-timeout": 2000,
            "ipc.client.connect.timeout": 2000,
            "ipc.client.rpc-timeout.ms": 4000,
        }
        fs = java.mount(store.fs, SUPERUSER, quick)
        data = content.make(3_000_000)
        fs.write("/f", data)
        store.pause("data3")
        for _ in range(3):
            assert fs.read("/f") == data
        store.go_on("data3")
        assert fs.read("/f") == data


class TestLeases:
    def test_writer_that_went_away_loses_its_file(self, roles, tmp_path):
        """Past the hard limit the server closes the file by itself, with what was flushed; nobody has to ask."""
        # Longer than a JVM that has just begun takes to write three files beside others.
        store = roles(lease_soft_ms=1000, lease_hard_ms=15_000)
        with Java() as lost:
            fs = lost.mount(store.fs, "alice")
            fs.java.call("mount", fs="root", url=store.fs, user=SUPERUSER, conf={})
            fs.java.call("mkdirs", fs="root", path="/home")
            fs.java.call("set-permission", fs="root", path="/home", mode="777")
            for name, length in (("large", 1_300_000), ("small", 100), ("none", 0)):
                out = fs.create(f"/home/{name}")
                if length:
                    out.write(content.make(length))
                    out.hflush()
        with Java() as java:
            fs = java.mount(store.fs, "alice")
            for name, length in (("large", 1_300_000), ("small", 100), ("none", 0)):
                eventually(lambda: fs.call("is-closed", path=f"/home/{name}"), 60, f"{name} is closed", every=0.5)
                assert fs.read(f"/home/{name}") == content.make(length)
                assert fs.stat(f"/home/{name}")["length"] == length

    def test_past_the_soft_limit_another_may_have_it(self, roles):
        store = roles(lease_soft_ms=1000, lease_hard_ms=600_000)
        with Java() as lost:
            out = lost.mount(store.fs, SUPERUSER).create("/f")
            out.write(content.make(1000))
            out.hflush()
        time.sleep(2)
        with Java() as java:
            fs = java.mount(store.fs, SUPERUSER)

            def append():
                try:
                    return fs.append("/f")
                except JavaError as error:  # recovery has begun; come again
                    assert error.kind in ("RecoveryInProgressException", "AlreadyBeingCreatedException"), error
                    return None

            more = eventually(append, 60, "append is possible", every=0.5)
            more.write(b"more")
            more.close()
            assert fs.read("/f") == content.make(1000) + b"more"
