"""Reads on the datanode's own machine: by descriptors over its Unix socket, and over TCP where there are none."""

import platform
import re
import urllib.request

import pytest

import content
from cli import levada
from java import Java, java_command
from paths import BLOCK, HADOOP_NATIVE
from store import eventually

pytestmark = pytest.mark.levada

LEN = 3 * BLOCK + 100


class Counts:
    """What the datanodes have counted since this was made."""

    def __init__(self, store):
        self.addresses = store.http_of_data
        self.before = {}
        self.before = {name: self.of(name) for name in ("passed", "refused", "tcp")}

    def of(self, name: str) -> float:
        patterns = {
            "passed": r'^levada_transfer_duration_seconds_count\{op="descriptors"\} (\S+)',
            "refused": r'^levada_transfer_errors_total\{op="descriptors",error="refused"\} (\S+)',
            "tcp": r'^levada_transfer_duration_seconds_count\{op="(?:read|read_ranges)"\} (\S+)',
        }
        pages = [urllib.request.urlopen(f"{address}/metrics").read().decode() for address in self.addresses]
        found = [float(value) for page in pages for value in re.findall(patterns[name], page, re.MULTILINE)]
        return sum(found) - self.before.get(name, 0)

    def become(self, **wanted: int):
        """A page is made anew now and then, so it may be a moment behind."""
        found = {}

        def are_there():
            found.update({name: self.of(name) for name in wanted})
            return found == wanted

        eventually(are_there, 10, f"{wanted} operations")


@pytest.fixture
def native_java():
    """Hadoop's client with its native library, without which it does nothing of this."""
    if platform.machine() != "x86_64":
        pytest.skip("the package has the library for one processor")
    command = java_command("Driver", quick=False)
    command.insert(1, f"-Djava.library.path={HADOOP_NATIVE}")
    with Java(command=command) as java:
        yield java


def mount(java, store):
    conf = {
        "dfs.client.read.shortcircuit": True,
        "dfs.domain.socket.path": store.directory / "data._PORT",
        # Stores of other tests have other sockets: what is known of them is kept by this name.
        "dfs.client.context": store.directory,
    }
    return java.mount(store.fs, conf=conf)


def test_our_client_reads_the_files(up, tmp_path):
    store = up("--datanodes", "1")
    local = tmp_path / "local"
    local.write_bytes(content.make(LEN))
    levada(store.fs, "put", "--block-size", BLOCK, local, "/f")
    counts = Counts(store)
    assert levada(store.fs, "cat", "/f", text=False).stdout == local.read_bytes()
    counts.become(passed=3, tcp=1)  # the last block is short, and lies in a pack


def test_without_the_socket_it_reads_over_tcp(up, tmp_path):
    """As a client in a container, which has another file system: nothing of it is said."""
    store = up("--datanodes", "1")
    local = tmp_path / "local"
    local.write_bytes(content.make(LEN))
    levada(store.fs, "put", "--block-size", BLOCK, local, "/f")
    for socket in store.directory.glob("data.*"):
        socket.unlink()
    counts = Counts(store)
    read = levada(store.fs, "cat", "/f", text=False)
    assert read.stdout == local.read_bytes() and not read.stderr
    counts.become(passed=0, tcp=4)


def test_damage_is_found_and_reported(up, tmp_path):
    store = up("--datanodes", "2")
    local = tmp_path / "local"
    local.write_bytes(content.make(LEN))
    levada(store.fs, "put", "--block-size", BLOCK, "--replication", 2, local, "/f")
    damaged = sorted(store.data_dirs[0].glob("containers/*/*.data"))
    good = {file: file.read_bytes() for file in damaged}
    assert len(good) == 3
    for file, data in good.items():
        with open(file, "r+b") as there:
            there.write(bytes([data[0] ^ 1]))
    for _ in range(3):
        assert levada(store.fs, "cat", "/f", text=False).stdout == local.read_bytes()

    def is_repaired():
        # Whichever of the two is read, one finds it.
        levada(store.fs, "cat", "/f", text=False)
        return all(file.exists() and file.read_bytes() == data for file, data in good.items())

    eventually(is_repaired, 60, "the damaged replicas are replaced")


def test_hdfs_client_reads_the_files(up, native_java):
    store = up("--datanodes", "1")
    fs = mount(native_java, store)
    data, small = content.make(LEN), content.make(1000)
    fs.write("/f", data, replication=1)
    fs.write("/small", small, replication=1)
    counts = Counts(store)
    for _ in range(2):
        assert fs.read("/f") == data
        assert fs.read("/small") == small
    # Four blocks, the last of them in a pack, as is that of the small file; the second time it still has them.
    counts.become(passed=5, refused=0, tcp=0)


def test_hdfs_client_learns_of_changes(up, native_java):
    """It keeps descriptors for minutes, and by a block's number alone: of what was appended to, it has to ask anew."""
    store = up("--datanodes", "1")
    fs = mount(native_java, store)
    data = content.make(LEN)
    fs.write("/f", data, replication=1)
    counts = Counts(store)
    assert fs.read("/f") == data
    for _ in range(3):
        more = content.make(BLOCK // 2 + 7)
        writer = fs.append("/f")
        writer.write(more)
        writer.close()
        data += more
        assert fs.read("/f") == data
    counts.become(refused=0, tcp=0)
    fs.delete("/f")
    fs.write("/f", data[1:], replication=1)
    assert fs.read("/f") == data[1:]
