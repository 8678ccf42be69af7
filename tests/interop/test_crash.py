"""`kill -9` in mid-write: what was completed is whole, what was open is readable or removable, and no garbage stays."""

import os
import signal
import subprocess
import threading
import time

import pytest

import content
import paths
from cli import levada
from java import Java, JavaError
from others import Native
from store import SUPERUSER, eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(600)]

BOTH = pytest.mark.parametrize("options", [(), ("--processes",)], ids=["one", "processes"])
# What may stay on disk above an empty store: logs, maps and holes of pack files, in no relation to what was written.
SLACK = 4 << 20


class Busy:
    """A writer that completes file after file until its store is gone, and remembers what was completed."""

    def __init__(self, write, name):
        self.write, self.name = write, name
        self.completed: dict[str, bytes] = {}
        self.attempted: list[str] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        for i in range(100_000):
            path = f"/busy/{self.name}{i}"
            data = content.make((1, 700, 70_000, 1_300_000)[i % 4], i)
            self.attempted.append(path)
            try:
                self.write(path, data)
            except Exception:
                return
            self.completed[path] = data


def by_levada(url, tmp_path):
    def write(path, data):
        levada(url, "put", "--block-size", paths.BLOCK, "-", path, stdin=data, text=False, timeout=30)

    return write


def by_native(child, tmp_path):
    def write(path, data):
        local = tmp_path / path.rsplit("/", 1)[1]
        local.write_bytes(data)
        child.call("put", path=path, local=str(local), block=paths.BLOCK)

    return write


@BOTH
def test_killed_while_many_write(up, tmp_path, options):
    store = up(*options)
    empty = store.used()
    with Java() as java:
        fs = java.mount(store.fs, SUPERUSER)
        before = {f"/before/f{i}": content.make(i * 50_021, i) for i in range(30)}
        for path, data in before.items():
            fs.write(path, data)
        # open files: some flushed, one never
        opened = {}
        for i, length in enumerate((1, 512, 100_000, 1_500_000)):
            out = fs.create(f"/open/f{i}")
            out.write(content.make(length, i))
            out.hflush()
            opened[f"/open/f{i}"] = content.make(length, i)
            out.write(content.make(300_000, 99))  # on its way
        fs.create("/open/nothing")
        writers = [
            Busy(lambda path, data, m=java.mount(store.fs, SUPERUSER): m.write(path, data), f"java{i}")
            for i in range(3)
        ]
        native = Native(store.fs, SUPERUSER)
        writers.append(Busy(by_native(native, tmp_path), "native"))
        writers.append(Busy(by_levada(store.fs, tmp_path), "levada"))
        eventually(lambda: all(len(w.completed) >= 8 for w in writers), 120, "all writers complete files")
        store.kill()
        native.stop()  # it would try again for a minute
    store.start()
    with Java() as java:
        fs = java.mount(store.fs, SUPERUSER)
        completed = dict(before)
        for writer in writers:
            writer.thread.join(60)
            completed |= writer.completed
        for path, data in completed.items():
            assert fs.read(path) == data, path
            assert fs.checksum(path) == content.md5_of_md5_of_crc(data), path
        # flushed bytes lived in the page cache, which `kill -9` of processes leaves alone
        for path, data in opened.items():
            eventually(lambda p=path: fs.call("recover-lease", path=p), 60, f"{path} can be recovered", every=0.5)
            got = fs.read(path)
            assert got[: len(data)] == data, (path, len(got))
        eventually(lambda: fs.call("recover-lease", path="/open/nothing"), 60, every=0.5)
        # what was being written: removable, without asking anyone
        for path in [w.attempted[-1] for w in writers if w.attempted[-1] not in w.completed]:
            assert fs.delete(path) or not fs.exists(path)
        fs.write("/after", content.make(2_000_000))
        assert fs.read("/after") == content.make(2_000_000)
        for path in ("/before", "/busy", "/open", "/after", "/user"):
            assert fs.delete(path) is True
        assert fs.names("/") == []
        eventually(lambda: store.used() < empty + SLACK, 120, f"{store.used()} bytes left, {empty} when empty", every=1)


@BOTH
def test_killed_again_and_again(up, tmp_path, options):
    """Five lives; each starts on what the last one left, and everything ever completed is there."""
    store = up(*options)
    completed = {}
    for life in range(5):
        with Java() as java:
            fs = java.mount(store.fs, SUPERUSER)
            for path, data in completed.items():
                assert fs.read(path) == data, (life, path)
            mounts = [java.mount(store.fs, SUPERUSER) for _ in range(2)]
            writers = [Busy(lambda p, d, m=m: m.write(p, d), f"life{life}w{i}x") for i, m in enumerate(mounts)]
            eventually(lambda: all(len(w.completed) >= 6 for w in writers), 60, "writers complete files")
            store.kill()
        for writer in writers:
            writer.thread.join(60)
            completed |= writer.completed
        store.start()
    with Java() as java:
        fs = java.mount(store.fs, SUPERUSER)
        for path, data in completed.items():
            assert fs.read(path) == data, path


def test_names_survive(up, java):
    """Every acknowledged change of the namespace is there after `kill -9`, a moment later."""
    store = up()
    fs = java.mount(store.fs, SUPERUSER)
    pending = [fs.start("mkdirs", path=f"/a/d{i}") for i in range(500)]
    for one in pending:
        one.get()
    fs.rename("/a/d7", "/moved")
    fs.delete("/a/d8")
    fs.call("set-permission", path="/a/d9", mode="700")
    fs.call("set-owner", path="/a/d9", owner="bob", group="staff")
    store.kill()
    store.start()
    fs = java.mount(store.fs, SUPERUSER)
    assert fs.exists("/moved") and not fs.exists("/a/d7") and not fs.exists("/a/d8")
    assert len(fs.names("/a")) == 498
    status = fs.stat("/a/d9")
    assert (status["mode"], status["owner"], status["group"]) == ("700", "bob", "staff")


class TestOneDatanodeDies:
    """A writer goes on with the nodes that are left; readers go to another replica."""

    def kill_one(self, store, pick=0):
        pid = store.pids["data"][pick]
        os.kill(pid, signal.SIGKILL)

    @pytest.mark.parametrize("pick", [0, 1, 2])
    def test_java_writer(self, up, java, pick):
        store = up("--processes")
        fs = java.mount(store.fs, SUPERUSER)
        data = content.make(6_000_000)
        out = fs.create("/f", block=4 << 20)
        out.write(data[:2_000_000])
        self.kill_one(store, pick)
        for start in range(2_000_000, len(data), 500_000):
            out.write(data[start : start + 500_000])
        out.close()
        assert fs.read("/f") == data
        assert fs.checksum("/f") == content.md5_of_md5_of_crc(data, block=4 << 20)

    def test_java_writer_that_flushed_takes_another_node(self, up, java):
        """After hflush the default policy wants three nodes again: the survivor copies its replica to a fourth."""
        store = up("--processes", "--datanodes", "4")
        fs = java.mount(store.fs, SUPERUSER)
        data = content.make(3_000_000)
        out = fs.create("/f", block=16 << 20)
        out.write(data[:1_000_000])
        out.hflush()
        first = fs.call("blocks", path="/f")[0]["names"][0]
        ports = [str(port) for _, port in store.transfer]
        self.kill_one(store, ports.index(first.rsplit(":", 1)[1]))
        out.write(data[1_000_000:])
        out.hflush()
        assert out.call("replicas") == 3
        out.close()
        assert fs.read("/f") == data

    def test_levada_writer(self, up, java):
        store = up("--processes")
        data = content.make(6_000_000)
        command = [str(paths.LEVADA), "put", "--block-size", str(4 << 20), "-", "/f"]
        environment = {**os.environ, "LEVADA_URL": store.fs}
        put = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, stderr=subprocess.PIPE)
        put.stdin.write(data[:2_000_000])
        put.stdin.flush()
        time.sleep(0.5)
        self.kill_one(store)
        put.stdin.write(data[2_000_000:])
        put.stdin.close()
        assert put.wait(120) == 0, put.stderr.read().decode()
        assert java.mount(store.fs, SUPERUSER).read("/f") == data

    def test_native_writer(self, up, java, tmp_path):
        store = up("--processes")
        native = Native(store.fs, SUPERUSER)
        part = tmp_path / "part"
        part.write_bytes(content.make(1_000_000))
        native.call("create", path="/f", handle="h", block=4 << 20, replication=3)
        native.call("write", handle="h", local=str(part))
        native.call("hsync", handle="h")
        self.kill_one(store)
        try:
            native.call("write", handle="h", local=str(part))
            native.call("close", handle="h")
            expected = content.make(1_000_000) * 2
        # Its own rules of replacing nodes may give up with three; nothing that was synced may be lost.
        except Exception:
            expected = content.make(1_000_000)
            fs = java.mount(store.fs, SUPERUSER)
            eventually(lambda: fs.call("recover-lease", path="/f"), 60, "lease is recovered", every=0.5)
        native.stop()
        got = java.mount(store.fs, SUPERUSER).read("/f")
        assert got[: len(expected)] == expected

    def test_readers(self, up, java, tmp_path):
        from others import Go

        store = up("--processes")
        fs = java.mount(store.fs, SUPERUSER)
        data = content.make(5_000_000)
        fs.write("/f", data)
        reader = fs.open("/f")
        assert reader.read(1000) == data[:1000]
        self.kill_one(store)
        assert reader.read() == data[1000:]
        assert fs.read("/f") == data
        assert levada(store.fs, "cat", "/f", text=False).stdout == data
        for child in (Native(store.fs, SUPERUSER), Go(store.fs, SUPERUSER)):
            child.call("get", path="/f", local=str(tmp_path / "f"))
            assert (tmp_path / "f").read_bytes() == data
            child.stop()

    def test_new_files_avoid_it(self, up, java):
        """The first writes after the death may still be sent there and have to find their way around."""
        store = up("--processes", "--datanodes", "4")
        fs = java.mount(store.fs, SUPERUSER)
        fs.write("/before", b"one")
        self.kill_one(store)
        for i in range(10):
            fs.write(f"/f{i}", content.make(100_000, i))
        for i in range(10):
            assert fs.read(f"/f{i}") == content.make(100_000, i)


class TestGarbage:
    def test_deleted_blocks_are_gone_within_a_minute(self, up, java):
        store = up()
        fs = java.mount(store.fs, SUPERUSER)
        fs.write("/warm", content.make(5000))
        fs.delete("/warm")
        empty = store.used()
        for i in range(10):
            fs.write(f"/d/large{i}", content.make(3_000_000, i))
        for one in [fs.start("put", path=f"/d/small{i}", local=__file__) for i in range(300)]:
            one.get()
        assert store.used() - empty > 3 * 30_000_000
        fs.delete("/d")
        eventually(lambda: store.used() < empty + SLACK, 60, "blocks are gone", every=1)

    def test_overwritten_and_abandoned_blocks_go_too(self, up, java):
        store = up()
        fs = java.mount(store.fs, SUPERUSER)
        empty = store.used()
        for i in range(8):
            fs.write("/same", content.make(3_000_000, i), overwrite=True)
        open_file = fs.create("/open")
        open_file.write(content.make(2_000_000))
        open_file.hflush()
        fs.delete("/open")
        fs.write("/same", b"small", overwrite=True)
        eventually(lambda: store.used() < empty + SLACK, 90, "blocks are gone", every=1)
        with pytest.raises(JavaError):
            open_file.close()
