"""Datanodes with several disks, each a small file system of its own: they fail, fill up, move, and are made even."""

import fcntl
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest

import content
import paths
from cli import levada
from java import hdfs_dfs
from replicas import LOST_AFTER_S, healed, put
from roles import Roles
from store import Store, eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

HEALED_S = 60
EXT4_IOC_SHUTDOWN = 0x8004587D
AT_ONCE = 2  # without another write of the journal


def run(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


class Disk:
    """An ext4 file system in a file."""

    def __init__(self, image: pathlib.Path, at: pathlib.Path, megabytes: int):
        self.image, self.at = image, at
        image.touch()
        os.truncate(image, megabytes << 20)
        run("mkfs.ext4", "-q", "-F", "-O", "^metadata_csum", image)
        self.mount(at)

    def mount(self, at: pathlib.Path):
        at.mkdir(exist_ok=True)
        run("mount", "-o", "loop,errors=remount-ro", self.image, at)
        self.at = at

    def unmount(self, *options):
        run("umount", *options, self.at)

    def fails(self):
        """Every access that needs the disk ends in EIO from now on."""
        at = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(at, EXT4_IOC_SHUTDOWN, AT_ONCE.to_bytes(4, "little"))
        finally:
            os.close(at)

    def becomes_read_only(self):
        """As ext4 does it by itself after an error."""
        device = os.path.basename(
            next(line.split()[0] for line in open("/proc/mounts") if line.split()[1] == str(self.at))
        )
        pathlib.Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")

    def vanishes(self):
        self.unmount("-l")


@pytest.fixture
def disks(tmp_path):
    made = []

    def make(name: str, megabytes: int = 192) -> Disk:
        try:
            made.append(Disk(tmp_path / f"{name}.img", tmp_path / name, megabytes))
        except (subprocess.CalledProcessError, PermissionError) as error:
            pytest.skip(f"no file systems can be mounted here: {error}")
        return made[-1]

    yield make
    for disk in made:
        subprocess.run(["umount", "-l", disk.at], capture_output=True)


class Machines:
    """A metadata server, and datanodes of which the first has these disks, the others a directory each."""

    def __init__(self, directory: pathlib.Path, first: list, others: int = 2, **settings):
        self.store = Roles(directory, 0, lost_after_ms=LOST_AFTER_S * 1000, **settings)
        self.store.describe_datanode()
        self.set_disks(first)
        for _ in range(others):
            self.store.describe_datanode()
        for name in self.store.names:
            self.store.start(name)

    def set_disks(self, disks: list):
        path = self.store.directory / "data1.toml"
        named = json.dumps([str(disk.at / "levada" if isinstance(disk, Disk) else disk) for disk in disks])
        rest = [line for line in path.read_text().splitlines() if not line.startswith("dir")]
        path.write_text("\n".join(rest).replace("[data]", f"[data]\ndirs = {named}") + "\n")

    def restart(self, disks: list):
        self.store.kill("data1")
        self.set_disks(disks)
        self.store.start("data1")

    def admin(self, *words) -> list[dict]:
        return [json.loads(line) for line in levada(self.store.fs, "admin", *words, "--json").stdout.splitlines()]

    def told(self) -> list[dict]:
        """The disks of the node that has several."""
        nodes = self.admin("datanode", "list")
        return next((node["disks"] for node in nodes if len(node["disks"]) > 1), [])

    def failed(self) -> list[str]:
        return [disk["dir"] for disk in self.told() if disk["state"] == "failed"]


@pytest.fixture
def machines(tmp_path):
    started = []

    def start(first, **settings) -> Machines:
        started.append(Machines(tmp_path / f"store{len(started)}", first, **settings))
        return started[-1]

    yield start
    for each in started:
        each.store.stop()


class Writer:
    """Writes files until it is stopped: small ones, and some of several blocks."""

    def __init__(self, store):
        self.store, self.files, self.failures, self.stopped = store, {}, [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for number in range(10_000):
            if self.stopped.is_set():
                return
            path = f"/writer/f{number}"
            data = content.make((3000, 70_000, 400_000, 2_500_000)[number % 4], number)
            try:
                put(self.store, path, data)
                self.files[path] = data
            except Exception as error:  # noqa: BLE001 each counts
                self.failures.append(error)

    def wait(self, count: int):
        eventually(lambda: len(self.files) >= count or self.failures, 90, f"{count} files")

    def stop(self):
        self.stopped.set()
        self.thread.join()


@pytest.mark.parametrize("how", ["fails", "becomes_read_only", "vanishes"])
def test_a_disk_fails_under_a_writer(disks, machines, how):
    three = [disks(name) for name in "abc"]
    machine = machines(three)
    store = machine.store
    writer = Writer(store)
    try:
        writer.wait(12)
        getattr(three[1], how)()
        writer.wait(len(writer.files) + 12)
    finally:
        writer.stop()
    assert not writer.failures
    files = writer.files
    # The others work, and the node says which does not.
    eventually(lambda: machine.failed() == [str(three[1].at / "levada")], 20, "the disk is named")
    line = levada(store.fs, "admin", "datanode", "list").stdout
    assert "2 ok" in line and str(three[1].at) in line and "failed" in line
    for path, data in files.items():
        assert levada(store.fs, "get", path, "-", text=False).stdout == data, path
    # What it had comes back from the other nodes, to the disks that are left.
    eventually(lambda: healed(store, files), HEALED_S, "full replication")
    put(store, "/after", content.make(900_000))
    assert levada(store.fs, "get", "/after", "-", text=False).stdout == content.make(900_000)


def test_a_node_whose_only_disk_fails_is_replaced(disks, machines):
    one = disks("only")
    machine = machines([one], others=3)
    store = machine.store
    files = {f"/f{i}": content.make(300_000 + i, i) for i in range(12)}
    for path, data in files.items():
        put(store, path, data)
    one.fails()
    files |= {f"/after{i}": content.make(400_000 + i, i) for i in range(12)}
    for path in list(files)[12:]:
        put(store, path, files[path])
    eventually(lambda: healed(store, files), HEALED_S, "full replication on the others")
    for path, data in files.items():
        assert levada(store.fs, "get", path, "-", text=False).stdout == data, path


def test_a_disk_that_is_missing_is_not_an_empty_one(disks, machines):
    two = [disks(name) for name in "ab"]
    machine = machines(two)
    store = machine.store
    files = {f"/f{i}": content.make(300_000 + i, i) for i in range(12)}
    for path, data in files.items():
        put(store, path, data)
    store.kill("data1")
    two[1].unmount()
    store.start("data1")
    eventually(lambda: machine.failed() == [str(two[1].at / "levada")], 20, "it is missed")
    assert list(two[1].at.iterdir()) == [], "nothing was made below the place where it is mounted"
    eventually(lambda: healed(store, files), HEALED_S, "full replication")
    # It comes back under another path, and first in the list: what it has is there twice, and once in the end.
    store.kill("data1")
    two[1].mount(two[1].at.parent / "elsewhere")
    machine.set_disks([two[1], two[0]])
    store.start("data1")
    eventually(lambda: machine.failed() == [] and len(machine.told()) == 2, 20, "it is back")
    eventually(lambda: sum(disk["replicas"] for disk in machine.told()) == len(files), 30, "one replica of each")
    assert healed(store, files)


def test_a_full_disk_takes_no_more_and_the_others_do(disks, machines):
    small, large = disks("small", 48), disks("large", 300)
    machine = machines([small, large])
    store = machine.store
    files = {f"/f{i}": content.make(4_000_000, i) for i in range(30)}
    for path, data in files.items():
        put(store, path, data)
    assert machine.failed() == []
    assert healed(store, files)
    count = sum(-(-len(data) // paths.BLOCK) for data in files.values())
    # Each disk is looked at once a second, and what was seen is told with the next heartbeat.
    eventually(lambda: sum(disk["replicas"] for disk in machine.told()) >= count, 10, "all is told")
    assert sum(disk["replicas"] for disk in machine.told()) == count
    assert all(disk["used"] > 0 for disk in machine.told())


def test_a_store_whose_only_disk_is_full_says_so(disks, tmp_path):
    """All of it lies on one disk. Both clients say what is full and what to do; what is there is served, and what is
    removed makes room."""
    disk = disks("only", 200)
    store = Store(disk.at / "levada", "--memory", "256M")
    try:
        levada(store.fs, "put", __file__, "/kept")
        large = tmp_path / "large"
        large.write_bytes(content.make(200 << 20))  # more than there is, also with one copy of each block
        small_blocks = ["-D", "dfs.blocksize=1048576"]
        for number in range(2):
            for done in (
                levada(store.fs, "put", "--block-size", "1M", large, f"/large{number}", check=False),
                hdfs_dfs(store.fs, "-put", large, f"/other{number}", options=small_blocks, check=False),
            ):
                # What is full, in the words of a datanode or of the metadata server; and not only that something may
                # be.
                assert done.returncode == 1 and re.search("is full, but|have no room for", done.stderr), done.stderr
                assert "delete files" in done.stderr, done.stderr
        assert levada(store.fs, "cat", "/kept").stdout == pathlib.Path(__file__).read_text()
        assert levada(store.fs, "ls", "-C", "/").stdout.split() == ["/kept", "/user"]
        large.write_bytes(content.make(10 << 20))
        eventually(
            lambda: levada(store.fs, "put", "--block-size", "1M", large, "/fits", check=False).returncode == 0,
            90,
            "there is room again",
        )
    finally:
        store.stop()


def test_disks_are_made_even(disks, machines):
    one, two = disks("one"), disks("two")
    machine = machines([one])
    store = machine.store
    files = {f"/large{i}": content.make(3_000_000, i) for i in range(25)}
    files |= {f"/small{i}": content.make(3000, 100 + i) for i in range(60)}
    for path, data in files.items():
        put(store, path, data)
    machine.restart([one, two])
    eventually(lambda: len(machine.told()) == 2, 20, "the new disk is told")
    before = machine.told()
    assert before[1]["replicas"] == 0
    # Somebody reads all the while.
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            for path, data in files.items():
                if stop.is_set():
                    return
                if levada(store.fs, "get", path, "-", text=False).stdout != data:
                    wrong.append(path)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        ended = machine.admin("balance", "--disks", "--within", "1", "--rate", "20M", "--wait")[-1]
    finally:
        stop.set()
        reader.join()
    assert (ended["kind"], ended["state"]) == ("balance-disks", "done"), ended
    assert ended["done_bytes"] == ended["total_bytes"] > 20_000_000 and "read back" in ended["note"], ended
    assert not wrong

    def even() -> list[dict]:
        """Each disk is looked at by itself, once a second: one heartbeat may tell of the one after the last move, and
        of the other before."""
        disks = machine.told()
        moved = disks[1]["replicas"] == ended["done_count"]
        return (
            disks
            if moved and sum(disk["replicas"] for disk in disks) == sum(disk["replicas"] for disk in before)
            else []
        )

    after = eventually(even, 20, "no replica is lost, and none is there twice")
    full = [disk["used"] / (disk["used"] + disk["free"]) for disk in after]
    assert abs(full[0] - full[1]) < 0.05, full
    assert healed(store, files)
    # A slow one is stopped. What it has moved stays where it is.
    three = disks("three")
    machine.restart([one, three, two])
    eventually(lambda: len(machine.told()) == 3, 20, "the third disk is told")
    (begun,) = machine.admin("balance", "--disks", "--within", "1", "--rate", "2M")
    look = lambda: next(job for job in machine.admin("jobs") if job["id"] == begun["job"])
    running = eventually(lambda: look() if look()["done_count"] > 1 else None, 30, "it moves")
    assert running["state"] == "running" and running["left_ms"] and running["bytes_per_s"] < 4 << 20, running
    levada(store.fs, "admin", "jobs", "stop", begun["job"])
    eventually(lambda: look()["state"] == "stopped", 20)
    assert healed(store, files)
    machine.admin("balance", "--disks", "--within", "1", "--wait")
    # Nothing more to do; and another order of the disks changes nothing.
    ended = machine.admin("balance", "--disks", "--within", "5", "--wait")[-1]
    assert ended["done_count"] == 0 and "near enough" in ended["note"], ended
    machine.restart([three, two, one])
    eventually(lambda: healed(store, files), HEALED_S, "all are there")


def test_up_with_disks(tmp_path):
    """A store grows from one disk a datanode to three, and starts again with them by itself."""
    store = Store(tmp_path / "store")
    try:
        put(store, "/before", content.make(500_000))
        store.stop()
        store.options = ("--disks", "3")
        store.start()
        files = {f"/f{i}": content.make(20_000 + 90_000 * i, i) for i in range(12)}
        for path, data in files.items():
            put(store, path, data)
        store.stop()
        store.options = ()
        store.start()
        for path, data in {"/before": content.make(500_000), **files}.items():
            assert levada(store.fs, "get", path, "-", text=False).stdout == data
        told = lambda: [
            json.loads(line) for line in levada(store.fs, "admin", "datanode", "list", "--json").stdout.splitlines()
        ]
        eventually(lambda: all(len(line["disks"]) == 3 for line in told()), 5)
        for number in (1, 2, 3):
            assert (store.directory / f"data{number}-disk3" / "VERSION").exists()
        store.stop()
        refused = subprocess.run(
            [paths.LEVADA, "up", "--dir", store.directory, "--port-base", "0", "--disks", "2"],
            capture_output=True,
            text=True,
        )
        assert refused.returncode == 1 and "3 disks" in refused.stderr
    finally:
        store.stop()


def test_what_is_reserved_of_a_disk_stays_free(tmp_path):
    """As if the disk were full: the node has no room, takes nothing, and balancing knows."""
    roles = Roles(tmp_path / "roles", datanodes=0)
    try:
        roles.start(roles.describe_datanode(f"free_reserve_len = {1 << 60}"))
        local = tmp_path / "f"
        local.write_bytes(content.make(3000))
        put_one = lambda path: levada(roles.fs, "put", "--replication", 1, local, path, check=False)
        refused = put_one("/before")
        assert refused.returncode != 0 and refused.stderr, refused.stdout + refused.stderr
        roles.start(roles.describe_datanode())
        assert put_one("/after").returncode == 0
        listed = lambda: levada(roles.fs, "admin", "datanode", "list", "--json").stdout.splitlines()
        disks = lambda: [disk for line in listed() for disk in json.loads(line)["disks"]]
        found = eventually(lambda: disks() if len(disks()) == 2 else None, 30, "both nodes report their disks")
        by_state = {disk["state"]: disk for disk in found}
        assert sorted(by_state) == ["full", "ok"], found
        assert (by_state["full"]["free"], by_state["full"]["capacity"], by_state["full"]["replicas"]) == (
            0,
            0,
            0,
        ), found
    finally:
        roles.stop()
