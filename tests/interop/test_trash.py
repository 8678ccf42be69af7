"""HDFS's own shell uses the trash that the store offers, and each tool finds what the other removed."""

import json

import pytest
from java import hdfs_dfs
from cli import levada
from roles import Roles


@pytest.fixture
def store(tmp_path):
    made = Roles(tmp_path / "store", datanodes=1, replication=1, trash_interval_ms=3_600_000)
    yield made
    made.stop()


def test_hdfs_and_levada_share_the_trash(store, tmp_path):
    local = tmp_path / "file"
    local.write_bytes(b"kept")
    hdfs_dfs(store.fs, "-mkdir", "-p", "/d/tree")
    for name in "ab":
        hdfs_dfs(store.fs, "-put", local, f"/d/tree/{name}")
    hdfs_dfs(store.fs, "-rm", "/d/tree/a")
    levada(store.fs, "rm", "/d/tree/b")
    listed = [json.loads(line)["path"] for line in levada(store.fs, "trash", "list", "--json").stdout.splitlines()]
    assert sorted(listed) == ["/d/tree/a", "/d/tree/b"]
    levada(store.fs, "trash", "restore", "/d/tree/a")
    assert hdfs_dfs(store.fs, "-cat", "/d/tree/a").stdout == "kept"
    # HDFS's shell makes checkpoints itself, whose names the server understands, too.
    hdfs_dfs(store.fs, "-expunge")
    levada(store.fs, "trash", "restore", "/d/tree/b")
    hdfs_dfs(store.fs, "-rm", "-r", "-skipTrash", "/d/tree")
    assert levada(store.fs, "trash", "list").stdout == ""
