"""XRootD's clients as they are (xrdcp, xrdfs, the Python bindings, uproot, fsspec-xrootd) at `levada gateway
--root`."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request

import content
import paths
import pytest
from cli import levada
from store import SUPERUSER, Store, die_with_parent

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

# A server that is gone is not waited for.
CLIENT = {"XRD_CONNECTIONWINDOW": "10", "XRD_CONNECTIONRETRY": "2", "XRD_REQUESTTIMEOUT": "60"}


class Gateway:
    def __init__(self, store):
        self.store = store
        self.process = subprocess.Popen(
            [str(paths.LEVADA), "gateway", "--url", store.fs, "--listen", "127.0.0.1:0", "--beside-servers", "--json"]
            + ["--root", "127.0.0.1:0", "--metrics", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )
        ready = json.loads(self.process.stdout.readline())
        self.url, self.metrics = f"root://{ready['root']}", ready["metrics"]

    def levada(self, *words, **options):
        return levada(self.store.fs, *words, **options)

    def count(self, name):
        """What the gateway has counted, all labels together, or of one series."""
        page = urllib.request.urlopen(f"http://{self.metrics}/metrics").read().decode()
        lines = [line for line in page.splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("root") / "levada")
    made = Gateway(store)
    yield made
    made.process.terminate()
    assert made.process.wait(10) == 0
    store.stop()


def run(*words, check=True, user=None):
    """A program of XRootD's."""
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run(
        list(map(str, words)), env={**os.environ, **CLIENT}, capture_output=True, text=True, timeout=120
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def python(program, *arguments):
    """A program in a process of its own: XRootD's library has threads. It prints JSON."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **CLIENT}, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_xrdcp_copies_files_and_trees(gateway, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "a b").write_bytes(content.make(30_000_000))
    (tree / "sub" / "empty").write_bytes(b"")
    (tree / "sub" / "page").write_bytes(content.make(4096))
    gateway.levada("put", tree, "/tree")
    for pages in ["1", "0"]:
        command = [
            "env",
            f"XRD_CPUSEPGWRTRD={pages}",
            "xrdcp",
            "-f",
            "-s",
            f"{gateway.url}//tree/a b",
            tmp_path / "back",
        ]
        if not shutil.which("xrdcp"):
            pytest.skip("xrdcp is not installed")
        run(*command)
        assert (tmp_path / "back").read_bytes() == (tree / "a b").read_bytes()
    assert gateway.count('levada_gateway_root_requests_total{request="pgread"}') > 0
    assert gateway.count('levada_gateway_root_requests_total{request="read"}') > 0
    (tmp_path / "out").mkdir()
    run("xrdcp", "-r", "-s", f"{gateway.url}//tree", tmp_path / "out")
    for name in ["a b", "sub/empty", "sub/page"]:
        assert (tmp_path / "out" / "tree" / name).read_bytes() == (tree / name).read_bytes()
    refused = run("xrdcp", "-f", "-s", tree / "a b", f"{gateway.url}//tree/new", check=False)
    assert refused.returncode != 0 and "only read" in refused.stderr, refused.stderr
    assert run("xrdcp", "-f", "-s", f"{gateway.url}//none", tmp_path / "none", check=False).returncode != 0


def test_xrdfs_looks_around(gateway):
    gateway.levada("mkdir", "/look")
    gateway.levada("mkdir", "/look/sub")
    gateway.levada("put", "-", "/look/file", stdin=b"12345", text=False)
    fs = lambda *words, **options: run("xrdfs", gateway.url, *words, **options).stdout
    assert fs("ls", "/look").split() == ["/look/file", "/look/sub"]
    lines = fs("ls", "-l", "/look").splitlines()
    assert lines[0].startswith(f"-rw-r--r-- {SUPERUSER} ") and lines[0].endswith(" /look/file"), lines
    assert lines[1].startswith("drwxr-xr-x ")
    assert fs("ls", "-l", "/look/sub") == ""
    assert "Size:   5\n" in fs("stat", "/look/file")
    assert fs("cat", "/look/file") == "12345"
    assert fs("query", "config", "readv_iov_max").split() == ["509"]
    assert fs("locate", "/look/file").split()[1:] == ["Server", "Read"]
    assert int(fs("spaceinfo", "/").splitlines()[1].split()[1]) > 0
    for words, code in [(("stat", "/none"), 3011), (("rm", "/look/file"), 3025), (("ls", "look"), 3010)]:
        assert f"[{code}]" in run("xrdfs", gateway.url, *words, check=False).stderr
    assert gateway.levada("cat", "/look/file").stdout == "12345"


READS = """
import json, sys
from XRootD import client
url, path = sys.argv[1:]
file = client.File()
assert file.open(url + "/" + path)[0].ok
pieces = [(i * 1777, i % 600) for i in range(16384) if i % 600]
status, got = file.vector_read(pieces)
assert status.ok, status.message
some = [[chunk.offset, chunk.length, bytes(chunk.buffer).hex()] for chunk in got.chunks[:: 997]]
print(json.dumps(some + [len(got.chunks)]))
"""


def test_the_bindings_read_vectors(gateway, tmp_path):
    pytest.importorskip("XRootD")
    data = content.make(30_000_000)
    (tmp_path / "f").write_bytes(data)
    gateway.levada("put", tmp_path / "f", "/vectors")
    before = gateway.count('levada_gateway_root_requests_total{request="readv"}')
    *pieces, count = python(READS, gateway.url, "/vectors")
    assert count == sum(1 for i in range(16384) if i % 600)
    assert all(data[offset : offset + length].hex() == got for offset, length, got in pieces)
    assert gateway.count('levada_gateway_root_requests_total{request="readv"}') == before + 1


CHANGED = """
import json, sys
from XRootD import client
url, path = sys.argv[1:]
file = client.File()
assert file.open(url + "/" + path)[0].ok
before = file.read(0, 5)[1].decode()
print("changed, please", flush=True)
sys.stdin.readline()
status, got = file.read(0, 5)
print(json.dumps([before, status.ok, status.errno]), flush=True)
"""


def test_a_file_that_is_replaced_is_read_no_more(gateway):
    pytest.importorskip("XRootD")
    gateway.levada("put", "-", "/changing", stdin=b"first", text=False)
    command = [sys.executable, "-c", CHANGED, gateway.url, "/changing"]
    child = subprocess.Popen(
        command,
        env={**os.environ, **CLIENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    assert child.stdout.readline() == "changed, please\n"
    gateway.levada("rm", "/changing")
    gateway.levada("put", "-", "/changing", stdin=b"other", text=False)
    out, _ = child.communicate("\n", timeout=120)
    assert json.loads(out) == ["first", False, 3007]


def test_nobody_reads_what_he_may_not(gateway, tmp_path):
    gateway.levada("put", "-", "/secret", stdin=b"5", text=False)
    gateway.levada("chmod", "600", "/secret")
    address = gateway.url.removeprefix("root://")
    run("xrdcp", "-f", "-s", f"root://{SUPERUSER}@{address}//secret", tmp_path / "mine")
    assert (tmp_path / "mine").read_bytes() == b"5"
    refused = run("xrdcp", "-f", "-s", f"root://stranger@{address}//secret", tmp_path / "his", check=False)
    assert refused.returncode != 0 and "3010" in refused.stderr, refused.stderr


WRITE = """
import sys, json, numpy, uproot
with uproot.recreate(sys.argv[1], compression=uproot.ZLIB(1)) as file:
    tree = file.mktree("T", {name: "f4" for name in "abcdef"}, initial_basket_capacity=1500)
    for i in range(1200):
        tree.extend({name: numpy.arange(100, dtype="f4") * at + i for at, name in enumerate("abcdef")})
print("{}")
"""
QUERY = """
import sys, json, uproot, uproot.source.xrootd
handler = {"handler": uproot.source.xrootd.XRootDSource} if sys.argv[2] == "bindings" else {}
with uproot.open({sys.argv[1]: "T"}, **handler) as tree:
    arrays = tree.arrays(["b", "e"], library="np")
chosen = arrays["b"][arrays["e"] > 500]
print(json.dumps([len(arrays["b"]), len(chosen), float(chosen.sum(dtype="f8"))]))
"""


@pytest.mark.parametrize("way", ["bindings", "fsspec"])
def test_uproot_reads_columns(gateway, tmp_path, way):
    pytest.importorskip("XRootD")
    pytest.importorskip("uproot")
    python(WRITE, tmp_path / "f.root")
    gateway.levada("put", tmp_path / "f.root", f"/{way}.root")
    local = python(QUERY, tmp_path / "f.root", "local")
    before = gateway.count('levada_gateway_root_requests_total{request="readv"}')
    assert python(QUERY, f"{gateway.url}//{way}.root", way) == local
    # 2,400 baskets; fsspec's reader merges those that are near each other.
    assert 1 <= gateway.count('levada_gateway_root_requests_total{request="readv"}') - before <= 8
