"""Stock clients at `levada gateway --edge`: xrdcp, HTTP and HDFS's, before a store that is stopped in the end."""

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import content
import paths
import pytest
from cli import levada
from clients import GoApi, JavaApi, NativeApi
from java import hdfs_dfs
from store import SUPERUSER, External, Store, die_with_parent, eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

CLIENT = {"XRD_CONNECTIONWINDOW": "10", "XRD_CONNECTIONRETRY": "2", "XRD_REQUESTTIMEOUT": "60"}


class Edge:
    def __init__(self, store, directory, *options):
        self.process = subprocess.Popen(
            [str(paths.LEVADA), "gateway", "--edge", "--upstream", store.fs, "--json"]
            + ["--cache-dir", str(directory), "--cache-size", "1G"]
            + ["--memory", "128M", "--metrics", "127.0.0.1:0"]
            + ["--http", "127.0.0.1:0", "--root", "127.0.0.1:0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )
        self.ready = json.loads(self.process.stdout.readline())

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.ready['http']}/files{path}", timeout=60) as answer:
            return answer.read(), answer.headers.get("Levada-Edge")

    def count(self, name):
        page = urllib.request.urlopen(f"http://{self.ready['metrics']}/metrics").read().decode()
        lines = [line for line in page.splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def from_store(self):
        return self.count('levada_edge_read_bytes_total{from="store"}')

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0


def xrdcp(edge, path, to):
    if not shutil.which("xrdcp"):
        pytest.skip("xrdcp is not installed")
    command = ["xrdcp", "-f", "-s", f"root://{edge.ready['root']}/{path}", str(to)]
    subprocess.run(command, env={**os.environ, **CLIENT}, check=True, timeout=120)
    return to.read_bytes()


def test_what_was_read_once_is_there_again(tmp_path):
    store = Store(tmp_path / "store")
    edge = Edge(store, tmp_path / "cache")
    try:
        first, second = content.make(30_000_000), content.make(7_000_000)
        (tmp_path / "first").write_bytes(first)
        (tmp_path / "second").write_bytes(second)
        levada(store.fs, "put", tmp_path / "first", "/file")
        levada(store.fs, "put", tmp_path / "second", "/other")
        assert xrdcp(edge, "/file", tmp_path / "back") == first
        assert edge.from_store() == len(first)
        assert xrdcp(edge, "/file", tmp_path / "back") == first
        assert edge.get("/file") == (first, None)
        assert edge.from_store() == len(first)

        edge.stop()
        edge = Edge(store, tmp_path / "cache")
        assert xrdcp(edge, "/file", tmp_path / "back") == first
        assert edge.from_store() == 0

        levada(store.fs, "rm", "/file")
        levada(store.fs, "put", tmp_path / "second", "/file")
        assert xrdcp(edge, "/file", tmp_path / "back") == second
        # In another name: who may read what is remembered for each.
        assert edge.get("/file") == (second, None)
        assert edge.from_store() == len(second)

        store.stop()
        # Nobody listens where it was: the store of another test that is given this port would be one that answers.
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(store.rpc)
            body, said = edge.get("/file")
            assert body == second and said.startswith("link-down; validated=")
            with pytest.raises(urllib.error.HTTPError) as refused:
                edge.get("/other")
            assert refused.value.code == 503 and b"the link to the store is down" in refused.value.read()
            # The page may be one of a tenth of a second ago.
            eventually(lambda: edge.count("levada_edge_link_up") == 0, 5)
    finally:
        edge.process.kill()
        store.stop()


@pytest.mark.parametrize("client", ["java", "hdfs-native", "go"])
def test_clients_of_hdfs_read(request, tmp_path, client):
    store = Store(tmp_path / "store")
    edge = Edge(store, tmp_path / "cache", "--hdfs", "127.0.0.1:0", "--hdfs-data", "127.0.0.1:0")
    api = None
    try:
        data = content.make(20_000_000)
        (tmp_path / "file").write_bytes(data)
        levada(store.fs, "put", "--block-size", "4M", tmp_path / "file", "/file")
        here = External(f"hdfs://{edge.ready['hdfs']}")

        def begin():
            if client == "java":
                return JavaApi(here, request.getfixturevalue("java"))
            return NativeApi(here) if client == "hdfs-native" else GoApi(here, "10s")

        def read():
            reader = api.reader("/file")
            got = b""
            while len(got) < len(data) and (more := reader.read(len(data) - len(got))):
                got += more
            reader.close()
            return got

        api = begin()
        for _ in range(2):
            assert read() == data
        assert edge.count("levada_edge_fetched_bytes_total") <= 1.1 * len(data)
        assert levada(here.fs, "cat", "/file", text=False).stdout == data
        assert "file" in levada(here.fs, "ls", "/").stdout
        refused = levada(here.fs, "mkdir", "/new", check=False)
        assert refused.returncode == 1 and f"read-only; write to {store.fs}" in refused.stderr, refused.stderr

        store.stop()
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(store.rpc)
            assert read() == data
            # One that begins now asks for more before its first block.
            api.stop()
            api = begin()
            assert read() == data
            if client == "java":
                hdfs_dfs(here.fs, "-get", "/file", tmp_path / "back", user=SUPERUSER)
                assert (tmp_path / "back").read_bytes() == data
            # The page may be one of a tenth of a second ago.
            eventually(lambda: edge.count("levada_edge_link_up") == 0, 5)
    finally:
        if api:
            api.stop()
        edge.process.kill()
        store.stop()
