"""Each file written by one client is read by all: bytes equal, `-checksum` equal.

A writer writes files of all sizes once; every reader then reads them all. Checksums are compared with what
content.py computes from the bytes alone, so no client is its own judge.
"""

import pathlib

import pytest

import content
from cli import levada
from java import hdfs_dfs
from paths import BLOCK
from store import SUPERUSER

# --- writers: (clients, remote directory, {name: local path}) -> None


def shell_writes(c, remote, files):
    hdfs_dfs(c.url, "-put", *files.values(), remote, options=["-D", f"dfs.blocksize={BLOCK}"])


def api_writes(**how):
    def write(c, remote, files):
        for name, local in files.items():
            c.root.put(local, f"{remote}/{name}", block=BLOCK, **how)

    return write


def native_writes(c, remote, files):
    for name, local in files.items():
        c.native.call("put", local=str(local), path=f"{remote}/{name}", block=BLOCK)


def go_writes(c, remote, files):
    for name, local in files.items():
        c.go.call("put", local=str(local), path=f"{remote}/{name}", block=BLOCK, replication=3)


def levada_writes(c, remote, files):
    levada(c.url, "put", "--block-size", BLOCK, *files.values(), remote)


# name: (writer, checksum type, bytes per checksum)
WRITERS = {
    "shell": (shell_writes, "CRC32C", 512),
    "api": (api_writes(), "CRC32C", 512),
    "api_crc32": (api_writes(checksum="CRC32", chunk=512), "CRC32", 512),
    "api_chunk4096": (api_writes(checksum="CRC32C", chunk=4096), "CRC32C", 4096),
    "api_null": (api_writes(checksum="NULL", chunk=512), "NULL", 512),
    "native": (native_writes, "CRC32C", 512),
    "go": (go_writes, "CRC32C", 512),
    "levada": (levada_writes, "CRC32C", 512),
}

# --- readers: (clients, remote directory, names, local directory) -> None


def shell_reads(c, remote, names, local):
    hdfs_dfs(c.url, "-get", f"{remote}/*", local)


def shell_reads_unverified(c, remote, names, local):
    hdfs_dfs(c.url, "-get", "-ignoreCrc", f"{remote}/*", local)


def api_reads(c, remote, names, local):
    for name in names:
        c.root.get(f"{remote}/{name}", local / name)


def native_reads(c, remote, names, local):
    for name in names:
        c.native.call("get", path=f"{remote}/{name}", local=str(local / name))


def go_reads(c, remote, names, local):
    for name in names:
        c.go.call("get", path=f"{remote}/{name}", local=str(local / name))


def levada_reads(c, remote, names, local):
    levada(c.url, "get", f"{remote}/*", local)


READERS = {
    "shell": shell_reads,
    "shell_unverified": shell_reads_unverified,
    "api": api_reads,
    "native": native_reads,
    "go": go_reads,
    "levada": levada_reads,
}

# --- checksums as each client prints them


def shell_sums(c, remote, names):
    lines = hdfs_dfs(c.url, "-checksum", *[f"{remote}/{name}" for name in names]).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    return [f"{algorithm} {hexadecimal}" for _, algorithm, hexadecimal in rows]


def api_sums(c, remote, names):
    return [c.root.checksum(f"{remote}/{name}") for name in names]


def levada_sums(c, remote, names):
    lines = levada(c.url, "checksum", *[f"{remote}/{name}" for name in names]).stdout.splitlines()
    return [" ".join(line.split()[-2:]) for line in lines]


SUMS = {"shell": shell_sums, "api": api_sums, "levada": levada_sums}


class Clients:
    def __init__(self, url, root, native, go):
        self.url, self.root, self.native, self.go = url, root, native, go


@pytest.fixture(scope="module")
def clients(store, root, native, go):
    return Clients(store.fs, root, native, go)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("corpus")
    made = {}
    for size in content.SIZES:
        made[f"{size:07d}"] = folder / f"{size:07d}"
        made[f"{size:07d}"].write_bytes(content.make(size))
    return made


@pytest.fixture(scope="module")
def written(clients, files, root):
    """`written(writer)`: the remote directory with that writer's files, made at the first call."""
    done = {}

    def once(writer):
        if writer not in done:
            remote = f"/matrix/{writer}"
            root.delete(remote)
            root.mkdirs(remote)
            try:
                WRITERS[writer][0](clients, remote, files)
                done[writer] = remote
            except Exception as error:
                done[writer] = error
        if isinstance(done[writer], Exception):
            raise done[writer]
        return done[writer]

    yield once
    root.delete("/matrix")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_bytes(clients, files, written, tmp_path, writer, reader):
    remote = written(writer)
    READERS[reader](clients, remote, list(files), tmp_path)
    for name, local in files.items():
        got = (tmp_path / name).read_bytes()
        assert got == local.read_bytes(), f"{writer} wrote {name}, {reader} read {len(got)} other bytes"


@pytest.mark.parametrize("tool", SUMS)
@pytest.mark.parametrize("writer", [w for w in WRITERS if w != "api_null"])
def test_checksum(clients, files, written, writer, tool):
    remote = written(writer)
    _, kind, chunk = WRITERS[writer]
    expected = [content.md5_of_md5_of_crc(f.read_bytes(), kind, chunk) for f in files.values()]
    assert SUMS[tool](clients, remote, list(files)) == expected


@pytest.mark.parametrize("writer", [w for w in WRITERS if w != "api_null"])
def test_checksum_of_go(clients, files, written, writer):
    """The Go client gives the bare MD5, without the name and the two numbers."""
    remote = written(writer)
    _, kind, chunk = WRITERS[writer]
    for name, local in files.items():
        expected = content.md5_of_md5_of_crc(local.read_bytes(), kind, chunk)[-32:]
        assert clients.go.call("checksum", path=f"{remote}/{name}") == expected


@pytest.mark.parametrize("writer", [w for w in WRITERS if w != "api_null"])
def test_composite_checksum(clients, files, written, java, store, writer):
    """COMPOSITE_CRC is the CRC of the content, however it was cut into chunks and blocks."""
    remote = written(writer)
    kind = WRITERS[writer][1]
    fs = java.mount(store.fs, SUPERUSER, {"dfs.checksum.combine.mode": "COMPOSITE_CRC"})
    for name, local in files.items():
        data = local.read_bytes()
        if data:
            assert fs.checksum(f"{remote}/{name}") == content.composite(data, kind)
    fs.unmount()


def test_sizes_and_listings_agree(clients, files, written):
    """Length, count and names are the same to every client."""
    remote = written("api")
    sizes = {name: local.stat().st_size for name, local in files.items()}
    total = {"length": sum(sizes.values()), "files": len(sizes), "directories": 1}
    assert {e["path"].rsplit("/", 1)[1]: e["length"] for e in clients.root.list(remote)} == sizes
    assert sorted(clients.native.call("list", path=remote)) == sorted(sizes)
    assert sorted(clients.go.call("list", path=remote)) == sorted(sizes)
    for child in (clients.native, clients.go):
        assert child.call("summary", path=remote) == total
    assert {k: v for k, v in clients.root.call("summary", path=remote).items() if k in total} == total
    for name, size in sizes.items():
        assert clients.go.call("stat", path=f"{remote}/{name}")["length"] == size
        assert clients.native.call("stat", path=f"{remote}/{name}")["length"] == size


@pytest.mark.parametrize("reader", ["native", "go"])
def test_ranges(clients, files, written, reader):
    """Reads that begin and end anywhere: around chunks and blocks."""
    remote = written("shell")
    name = max(files)
    data = files[name].read_bytes()
    for offset in (0, 1, 511, 512, 513, 70_000, BLOCK - 1, BLOCK, 2 * BLOCK - 300, len(data) - 1):
        for length in (1, 511, 513, 66_000):
            wanted = data[offset : offset + length]
            child = getattr(clients, reader)
            got = child.call("pread", path=f"{remote}/{name}", offset=offset, length=len(wanted))
            assert bytes.fromhex(got) == wanted, (offset, length)
