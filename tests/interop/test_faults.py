"""Damage on disk, and crowds of clients: what readers see stays right."""

import shutil
import threading

import pytest

import content
from cli import levada
from java import JavaError
from others import Go, Native
from paths import BLOCK
from replicas import is_free, write
from store import SUPERUSER


def damage(store, node: int, data: bytes) -> int:
    """Changes one byte in the middle of every replica of `data` that this node holds; gives how many."""
    needle, count = data[len(data) // 2 : len(data) // 2 + 64], 0
    for path in store.data_dirs[node].rglob("*"):
        if not path.is_file() or path.stat().st_size < 64 or is_free(path):
            continue
        with open(path, "r+b") as f:
            at = f.read().find(needle)
            if at >= 0:
                f.seek(at)
                f.write(bytes([needle[0] ^ 0x40]))
                count += 1
    return count


@pytest.mark.levada
@pytest.mark.parametrize("size", [3000, 900_000], ids=["packed", "large"])
def test_readers_go_around_a_damaged_replica(up, java, tmp_path, size):
    """Two of three replicas are damaged; clients find the whole one and give back no wrong byte."""
    store = up()
    fs = java.mount(store.fs, SUPERUSER)
    data = content.make(size)
    write(store, fs, {"/f": data})
    assert [damage(store, node, data) for node in (0, 1)] == [1, 1]
    for _ in range(6):  # the first replica asked is a matter of chance
        assert fs.read("/f") == data
        assert levada(store.fs, "cat", "/f", text=False).stdout == data
    # Not the Go client: it gives out the damaged chunk together with its error and reads on elsewhere, with any server.
    child = Native(store.fs, SUPERUSER)
    child.call("get", path="/f", local=str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == data
    child.stop()


@pytest.mark.levada
def test_all_replicas_damaged_is_an_error(up, java):
    store = up()
    fs = java.mount(store.fs, SUPERUSER, {"dfs.client.retry.window.base": 10})
    data = content.make(900_000)
    write(store, fs, {"/f": data})
    assert [damage(store, node, data) for node in range(3)] == [1, 1, 1]
    with pytest.raises(JavaError):
        fs.read("/f")
    done = levada(store.fs, "cat", "/f", text=False, check=False)
    assert done.returncode != 0
    assert data.startswith(done.stdout), "what was printed before the fault is right"


@pytest.mark.levada
def test_a_datanode_that_lost_its_directory(up, java):
    """It comes back empty; files are read from the others."""
    store = up()
    fs = java.mount(store.fs, SUPERUSER)
    files = {f"/f{i}": content.make(i * 100_003, i) for i in range(12)}
    for path, data in files.items():
        fs.write(path, data)
    store.stop()
    shutil.rmtree(store.data_dirs[1])
    store.start()
    fs = java.mount(store.fs, SUPERUSER)
    for path, data in files.items():
        assert fs.read(path) == data
        assert levada(store.fs, "cat", path, text=False).stdout == data
    fs.write("/after", content.make(500_000))
    assert fs.read("/after") == content.make(500_000)


def test_many_clients_at_once(java, store, root, home, tmp_path):
    """Sixteen Java clients, hdfs-native and Go write, read and rename small files together."""
    failures, lock = [], threading.Lock()

    def java_client(number):
        fs = java.mount(store.fs, SUPERUSER)
        for i in range(25):
            data = content.make((number * 7919 + i * 613) % 40_000, i)
            path = f"{home}/c{number}/f{i}"
            fs.write(path, data)
            assert fs.rename(path, path + ".done") is True
            assert fs.read(path + ".done") == data
        assert len(fs.names(f"{home}/c{number}")) == 25
        fs.unmount()

    def child_client(kind):
        child = kind(store.fs, SUPERUSER)
        child.call("mkdir", path=f"{home}/{kind.__name__}")
        for i in range(25):
            local = tmp_path / f"{kind.__name__}{i}"
            local.write_bytes(content.make(i * 1777, i))
            path = f"{home}/{kind.__name__}/f{i}"
            child.call("put", path=path, local=str(local), block=BLOCK, replication=3)
            child.call("get", path=path, local=str(local) + ".back")
            assert (tmp_path / f"{kind.__name__}{i}.back").read_bytes() == content.make(i * 1777, i)
        child.stop()

    def run(what, argument):
        try:
            what(argument)
        except BaseException as error:
            with lock:
                failures.append((argument, error))

    threads = [threading.Thread(target=run, args=(java_client, n)) for n in range(16)]
    threads += [threading.Thread(target=run, args=(child_client, kind)) for kind in (Native, Go)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]


def test_one_directory_many_writers(java, store, root, home):
    """All create into one directory, and it lists every name once."""
    mounts = [java.mount(store.fs, SUPERUSER) for _ in range(8)]
    pending = [mounts[i % 8].start("put", local="/dev/null", path=f"{home}/f{i:04d}") for i in range(800)]
    for one in pending:
        one.get()
    assert root.names(home) == [f"f{i:04d}" for i in range(800)]
    for mount in mounts:
        mount.unmount()


def test_same_name_many_creators(java, store, home):
    """Of many that create one name without overwrite, exactly one wins."""
    mounts = [java.mount(store.fs, SUPERUSER) for _ in range(8)]
    pending = [m.start("create", handle=f"race{home}{i}", path=f"{home}/f") for i, m in enumerate(mounts)]
    won = []
    for i, one in enumerate(pending):
        try:
            one.get()
            won.append(i)
        except JavaError as error:
            assert error.kind in ("AlreadyBeingCreatedException", "FileAlreadyExistsException")
    assert len(won) == 1
    for mount in mounts:
        mount.unmount()


def test_a_committed_job(java, store, root, home):
    """What MapReduce and Spark do: tasks write below _temporary, and are renamed into place."""
    out = f"{home}/out"
    work = f"{out}/_temporary/0"
    root.mkdirs(work)
    for task in range(12):
        root.write(
            f"{work}/_temporary/attempt_{task}/part-{task:05d}", content.make(1000, task), parents_must_exist=False
        )
        assert root.rename(f"{work}/_temporary/attempt_{task}", f"{work}/task_{task}") is True
    for task in root.names(work):
        if task.startswith("task_"):
            for part in root.names(f"{work}/{task}"):
                assert root.rename(f"{work}/{task}/{part}", f"{out}/{part}") is True
    assert root.delete(f"{out}/_temporary") is True
    root.write(f"{out}/_SUCCESS", b"")
    assert root.names(out) == ["_SUCCESS"] + [f"part-{task:05d}" for task in range(12)]
    for task in range(12):
        assert root.read(f"{out}/part-{task:05d}") == content.make(1000, task)
