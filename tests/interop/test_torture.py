"""Roles die at random under writers who remember what was acknowledged; what was acknowledged holds, and nothing else
stays.

LEVADA_ROUNDS=500 ... test_torture.py      # kills of each run, there are two; 50 when it does not say
"""

import os
import random
import threading
import time

import pytest

import content
from java import Java, JavaError
from replicas import is_free
from roles import Roles
from store import SUPERUSER, eventually

ROUNDS = int(os.environ.get("LEVADA_ROUNDS", "50"))

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300 + 6 * ROUNDS)]

WRITERS = 3
# Calls find the metadata server again soon; it is away for less than a second.
PATIENT = {"ipc.client.connect.max.retries": 30, "ipc.client.connect.retry.interval": 300}


class Writer:
    """Changes a directory of its own at random.

    `whole` are files as they must be, `gone` and `made` names that must not or must exist, `flushed` the bytes at least
    in files left open. What a failed call may have done or not is in `doubts`, `appends` and `moves`: the path, and
    what was and may now be found there.
    """

    def __init__(self, name: str, fs, seed: int):
        self.home, self.fs, self.random = f"/{name}", fs, random.Random(seed)
        self.whole: dict[str, bytes] = {}
        self.flushed: dict[str, tuple[bytes, bytes]] = {}
        self.gone: set[str] = set()
        self.made: set[str] = set()
        self.doubts: list[tuple[str, bytes | None, bytes | None]] = []
        self.appends: list[tuple[str, bytes, bytes]] = []
        self.moves: list[tuple[str, str, bytes]] = []
        self.count = self.done = 0
        self.fault: Exception | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        steps = [self.create] * 4 + [self.append] * 2 + [self.replace, self.flush, self.rename, self.delete, self.mkdir]
        while not self.stopping.is_set():
            try:
                self.random.choice(steps)()
                self.done += 1
            except JavaError:
                time.sleep(0.05)
            except Exception as error:  # what no failed call says
                self.fault = error
                return

    def stop(self):
        self.stopping.set()
        self.thread.join(120)
        assert not self.thread.is_alive()
        if self.fault:
            raise self.fault

    def name(self) -> str:
        self.count += 1
        return f"{self.home}/{self.count}"

    def data(self) -> bytes:
        return content.make(self.random.choice((0, 1, 700, 5000, 70_000, 1_300_000)), self.random.randrange(1 << 30))

    def take(self) -> tuple[str, bytes] | None:
        """A whole file. Until the call on it was acknowledged nothing is sure of it."""
        if not self.whole:
            return None
        path = self.random.choice(sorted(self.whole))
        return path, self.whole.pop(path)

    def create(self):
        path, data = self.name(), self.data()
        self.doubts.append((path, None, data))
        self.fs.write(path, data)
        self.doubts.pop()
        self.whole[path] = data

    def replace(self):
        if taken := self.take():
            path, data = taken[0], self.data()
            self.doubts.append((path, taken[1], data))
            self.fs.write(path, data, overwrite=True)
            self.doubts.pop()
            self.whole[path] = data

    def append(self):
        if taken := self.take():
            (path, old), data = taken, self.data()
            self.appends.append((path, old, old + data))
            out = self.fs.append(path)
            out.write(data)
            out.close()
            self.appends.pop()
            self.whole[path] = old + data

    def flush(self):
        """Leaves a file open, with more behind what was flushed."""
        path, data = self.name(), self.data()
        self.flushed[path] = (b"", data * 3)
        out = self.fs.create(path)
        for count in (1, 2):
            out.write(data)
            self.random.choice((out.hflush, out.hsync))()
            self.flushed[path] = (data * count, data * 3)
        out.write(data)

    def rename(self):
        if taken := self.take():
            (path, data), to = taken, self.name()
            self.moves.append((path, to, data))
            assert self.fs.rename(path, to) is True
            self.moves.pop()
            self.whole[to] = data
            self.gone.add(path)

    def delete(self):
        if taken := self.take():
            self.doubts.append((*taken, None))
            assert self.fs.delete(taken[0]) is True
            self.doubts.pop()
            self.gone.add(taken[0])

    def mkdir(self):
        path = self.name()
        self.fs.mkdirs(path)
        self.made.add(path)

    def check(self, fs):
        for path, data in self.whole.items():
            assert found(fs, path) == data, path
            assert fs.checksum(path) == content.md5_of_md5_of_crc(data), path
        assert not [path for path in self.gone if fs.exists(path)]
        assert all(map(fs.exists, self.made))
        for path, (least, most) in self.flushed.items():
            got = closed(fs, path)
            assert got is None and not least or got.startswith(least) and most.startswith(got), path
        for path, old, new in self.doubts:
            got = closed(fs, path)
            # Of a new file any part may be there; of an old one all, or it was replaced.
            part = got is not None and new is not None and new.startswith(got)
            assert got == old or part or got is new is None, path
        for path, old, new in self.appends:
            got = closed(fs, path)
            assert got is not None and got.startswith(old) and new.startswith(got), path
        for path, to, data in self.moves:
            assert sorted([found(fs, path), found(fs, to)], key=lambda got: got is None) == [data, None], path


def found(fs, path) -> bytes | None:
    try:
        return fs.read(path)
    except JavaError as error:
        if error.kind == "FileNotFoundException":
            return None
        raise


def closed(fs, path) -> bytes | None:
    """The bytes of a file whose writer is gone."""
    if not fs.exists(path):
        return None
    eventually(lambda: fs.call("recover-lease", path=path), 60, f"{path} is recovered")
    return found(fs, path)


def again(what):
    """A connection of before a kill breaks at its first use."""
    for _ in range(20):
        try:
            return what()
        except JavaError:
            time.sleep(0.2)
    return what()


def count(fs, path) -> tuple[int, int, int]:
    files, directories, length = 0, 1, 0
    for entry in fs.list(path):
        if entry["directory"]:
            more = count(fs, entry["path"])
            files, directories, length = files + more[0], directories + more[1], length + more[2]
        else:
            files, length = files + 1, length + entry["length"]
    return files, directories, length


def listed(folder) -> list:
    """What is in it; nothing in a file. A datanode clears empty containers away, perhaps just now."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def takes_room(pack) -> bool:
    try:
        return pack.stat().st_blocks > 0
    except FileNotFoundError:
        return False


def left(store) -> list[str]:
    left = [path for place in store.data_dirs for path in listed(place / "open") if not is_free(path)]
    shelved = [path for place in store.data_dirs for home in listed(place / "containers") for path in listed(home)]
    left += [path for path in shelved if path.suffix in (".data", ".sums") or path.name == "pack" and takes_room(path)]
    return list(map(str, left))


@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_holds(tmp_path, seed):
    store = Roles(tmp_path / "levada", lease_soft_ms=2000)
    chance = random.Random(seed)
    try:
        with Java() as java:
            fs = java.mount(store.fs, SUPERUSER, PATIENT)
            writers = [Writer(f"w{n}", java.mount(store.fs, SUPERUSER, PATIENT), 10 * seed + n) for n in range(WRITERS)]
            for _ in range(ROUNDS):
                time.sleep(chance.choice((chance.uniform(0.1, 0.5), chance.uniform(0.5, 2))))
                dead = chance.choice(
                    (["meta"], ["meta", *store.names], chance.sample(store.names, 1), chance.sample(store.names, 2))
                )
                store.kill(*dead)
                time.sleep(chance.choice((0, 0, 0.5)))
                for name in dead:
                    begun = time.monotonic()
                    store.start(name)
                    assert time.monotonic() - begun < 30, f"{name} took long to start"
            for writer in writers:
                writer.stop()
            assert sum(writer.done for writer in writers) > 50
            again(lambda: fs.exists("/"))
            for writer in writers:
                writer.check(fs)
            summary = fs.call("summary", path="/")
            assert (summary["files"], summary["directories"], summary["length"]) == count(fs, "/")
            for entry in fs.list("/"):
                assert fs.delete(entry["path"])
            eventually(lambda: not left(store), 60, "nothing is left of deleted files", every=0.5)
    finally:
        store.stop()
    logs = "".join((store.directory / f"{name}.log").read_text() for name in ["meta", *store.names])
    assert "panicked" not in logs, logs[-2000:]
