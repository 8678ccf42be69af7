"""The file system of fsspec, against a real store."""

import asyncio
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest

import levada


def test_names(levada_fs, home):
    fs = levada_fs
    fs.pipe_file(f"{home}/a", b"one")
    fs.makedirs(f"{home}/d/e", exist_ok=True)
    assert sorted(fs.ls(home, detail=False)) == [f"{home}/a", f"{home}/d"]
    info = fs.info(f"{home}/a")
    assert (info["name"], info["size"], info["type"]) == (f"{home}/a", 3, "file")
    assert fs.isdir(f"{home}/d") and fs.isfile(f"{home}/a") and not fs.exists(f"{home}/none")
    assert fs.find(home) == [f"{home}/a"] and fs.glob(f"{home}/*") == [f"{home}/a", f"{home}/d"]
    fs.mv(f"{home}/a", f"{home}/b")
    assert fs.cat_file(f"{home}/b") == b"one" and not fs.exists(f"{home}/a")
    fs.mv(f"{home}/b", f"{home}/d")
    assert fs.exists(f"{home}/d/b")
    fs.cp_file(f"{home}/d/b", f"{home}/c")
    assert fs.cat_file(f"{home}/c") == b"one"
    fs.rm(f"{home}/d", recursive=True)
    assert fs.ls(home, detail=False) == [f"{home}/c"]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("levada://host:8020/a/b", "/a/b"),
        ("hdfs://host/a/", "/a"),
        ("levada://host", "/"),
        ("/a", "/a"),
        ("a/b/", "/a/b"),
        ("/of/http://host/index", "/of/http://host/index"),
        ("of/http://host", "/of/http://host"),
        ("levada://host/of/http://x", "/of/http://x"),
        ("1://a", "/1://a"),
    ],
)
def test_a_path_is_what_follows_a_scheme_at_its_beginning(path, wanted):
    assert levada.LevadaFileSystem._strip_protocol(path) == wanted


def test_an_option_that_there_is_not_is_told(levada_store):
    at = {"host": levada_store.host, "port": levada_store.port}
    with pytest.warns(UserWarning, match="no option foo"):
        levada.LevadaFileSystem(**at, foo=1)
    levada.LevadaFileSystem(**at, use_listings_cache=False, skip_instance_cache=True)  # the tests fail by a warning


def test_bytes_in_parts(levada_fs, home):
    data = bytes(range(256)) * 8000
    path = f"{home}/f"
    levada_fs.pipe_file(path, data)
    assert levada_fs.cat_file(path, start=-10) == data[-10:]
    assert levada_fs.cat_file(path, start=5, end=9) == data[5:9]
    starts = list(range(0, 2_000_000, 4001))
    ends = [start + 300 for start in starts]
    assert levada_fs.cat_ranges([path] * len(starts), starts, ends) == [data[s:e] for s, e in zip(starts, ends)]
    found = levada_fs.cat_ranges([path, f"{home}/none"], [0, 0], [4, 4])
    assert found[0] == data[:4] and isinstance(found[1], FileNotFoundError)


def test_files(levada_fs, home):
    path = f"{home}/f"
    with levada_fs.open(path, "wb", staged=False) as file:
        assert file.write(b"abc") == 3
        file.flush()
        assert levada_fs.cat_file(path) == b"abc"
        file.write(b"def" * 100_000)
    with levada_fs.open(path, "ab") as file:
        assert file.tell() == 300_003
        file.write(b"end")
        file.flush()
        assert levada_fs.cat_file(path, -3) == b"end"
    with levada_fs.open(path) as file:
        assert file.size == 300_006
        file.seek(-6, io.SEEK_END)
        buffer = bytearray(10)
        assert file.readinto(buffer) == 6 and buffer[:6] == b"defend"
        assert file.read_ranges([(0, 3), (300_003, 99)]) == [b"abc", b"end"]
        file.seek(1)
        assert file.read(4) == b"bcde"
    with levada_fs.open(path, "rt") as file:
        assert file.read(6) == "abcdef"
    with pytest.raises(FileExistsError):
        levada_fs.open(path, "xb").close()
    with levada_fs.open(f"{home}/g", "ab") as file:
        file.write(b"begun by appending")
    assert levada_fs.cat_file(f"{home}/g") == b"begun by appending"


def test_threads_that_seek_and_read_without_a_lock(levada_fs, home):
    """As DuckDB's do: each reads where it has sought, whatever another one did between."""
    levada_fs.pipe_file(f"{home}/f", bytes(range(200)))
    with levada_fs.open(f"{home}/f") as file, ThreadPoolExecutor(1) as other:

        def seek_and_read() -> bytes:
            file.seek(50)
            file.seek(-10, io.SEEK_CUR)
            return file.read(5)

        file.seek(100)
        assert other.submit(seek_and_read).result() == bytes(range(40, 45))
        assert file.tell() == 100 and file.read(3) == bytes(range(100, 103))
        # Without a seek of its own it goes on where the last one ended, and so do others from there.
        file.seek(7)
        assert other.submit(file.read, 3).result() == bytes(range(7, 10))
        assert (file.read(2), file.tell()) == (bytes(range(10, 12)), 12)
        buffer = bytearray(4)
        file.seek(198)
        assert file.readinto(buffer) == 2 and (file.tell(), file.read(), file.read(1)) == (200, b"", b"")


@pytest.mark.parametrize("size", [3, 3_000_000])
def test_a_file_is_seen_when_it_is_whole(levada_fs, home, size):
    path, old, new = f"{home}/f", b"old", b"n" * size
    levada_fs.pipe_file(path, old)
    with levada_fs.open(path, "wb") as file:
        file.write(new)
        file.flush()
        assert levada_fs.cat_file(path) == old
    assert levada_fs.cat_file(path) == new
    # An exception in its block: nothing of it is left.
    with pytest.raises(KeyError), levada_fs.open(path, "wb") as file:
        file.write(old * size)
        raise KeyError
    assert levada_fs.cat_file(path) == new
    # Of two that want to make a file anew one can.
    with pytest.raises(FileExistsError), levada_fs.open(f"{home}/x", "xb") as file:
        file.write(new)
        levada_fs.pipe_file(f"{home}/x", b"", mode="create")
    with pytest.raises(FileExistsError):
        levada_fs.pipe_file(f"{home}/x", new, mode="create")
    assert levada_fs.ls(home, detail=False) == [path, f"{home}/x"]


def test_a_transaction_shows_its_files_at_its_end(levada_fs, home):
    with levada_fs.transaction:
        with levada_fs.open(f"{home}/t", "wb") as file:
            file.write(b"x")
        assert not levada_fs.exists(f"{home}/t")
    assert levada_fs.cat_file(f"{home}/t") == b"x"
    with pytest.raises(KeyError), levada_fs.transaction:
        with levada_fs.open(f"{home}/t", "wb") as file:
            file.write(b"y")
        raise KeyError
    with levada_fs.transaction, pytest.raises(ValueError):
        levada_fs.open(f"{home}/t", "ab")
    assert levada_fs.cat_file(f"{home}/t") == b"x" and len(levada_fs.ls(home)) == 1


def test_errors_are_pythons_own(levada_fs, levada_store, home):
    fs = levada_fs
    fs.pipe_file(f"{home}/f", b"")
    with pytest.raises(FileNotFoundError) as error:
        fs.open(f"{home}/none")
    assert error.value.filename == f"{home}/none"
    with pytest.raises(FileNotFoundError):
        fs.rm_file(f"{home}/none")
    with pytest.raises(FileExistsError):
        fs.mkdir(home)
    with pytest.raises(NotADirectoryError):
        fs.rmdir(f"{home}/f")
    with pytest.raises(OSError):
        fs.rm(home)  # not empty
    assert fs.exists(f"{home}/f")
    other = levada.LevadaFileSystem(levada_store.host, levada_store.port, user="nobody-else", skip_instance_cache=True)
    with pytest.raises(PermissionError):
        other.pipe_file(f"{home}/g", b"")
    away = levada.LevadaFileSystem("127.0.0.1", 1, skip_instance_cache=True)
    with pytest.raises(ConnectionError):
        away.ls("/")


def test_what_a_fork_inherits_is_refused(levada_fs, home):
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            levada_fs.client.status(home).wait()
            said = b"it worked"
        except RuntimeError as error:
            said = f"refused: {error}".encode()
        os.write(theirs, said)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(ours, 1000).startswith(b"refused: ")
    assert levada_fs.exists(home)


def test_many_threads(levada_fs, home):
    data = os.urandom(2_000_000)
    levada_fs.pipe_file(f"{home}/f", data)
    wrong = []

    def work(seed: int):
        for place in range(seed, len(data) - 1000, 97_003):
            if levada_fs.cat_file(f"{home}/f", place, place + 1000) != data[place : place + 1000]:
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_in_an_event_loop(levada_store, home):
    async def work():
        fs = levada.LevadaFileSystem(
            levada_store.host, levada_store.port, asynchronous=True, loop=asyncio.get_running_loop(),
            skip_instance_cache=True,
        )  # fmt: skip
        await asyncio.gather(*(fs._pipe_file(f"{home}/{n}", str(n).encode()) for n in range(20)))
        return await asyncio.gather(*(fs._cat_file(f"{home}/{n}") for n in range(20)))

    assert asyncio.run(work()) == [str(n).encode() for n in range(20)]


def test_without_a_host_it_is_the_store_of_the_environment(levada_store, home, monkeypatch, tmp_path):
    """As for the command: LEVADA_URL comes before Hadoop's configuration."""
    core = "<configuration><property><name>fs.defaultFS</name><value>{}</value></property></configuration>"
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    (tmp_path / "core-site.xml").write_text(core.format("hdfs://127.0.0.1:1"))
    monkeypatch.setenv("LEVADA_URL", f"{levada_store.url}/a/path/that/does/not/count")
    fsspec.filesystem("levada", skip_instance_cache=True).pipe_file(f"{home}/x", b"hello")
    monkeypatch.delenv("LEVADA_URL")
    (tmp_path / "core-site.xml").write_text(core.format(levada_store.url))
    assert fsspec.filesystem("levada", skip_instance_cache=True).cat_file(f"{home}/x") == b"hello"
    (tmp_path / "core-site.xml").unlink()
    with pytest.raises(ValueError, match="LEVADA_URL"):
        levada.LevadaFileSystem(skip_instance_cache=True)


def test_by_address(levada_store, home):
    address = f"levada://{levada_store.host}:{levada_store.port}{home}/x"
    with fsspec.open(address, "wb") as file:
        file.write(b"hello")
    with fsspec.open(address) as file:
        assert file.read() == b"hello"
