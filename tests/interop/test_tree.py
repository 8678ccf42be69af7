"""A real tree: Python's standard library and the JDK's modules. Put, list, count, rename, read back, compare,
delete."""

import os
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

from cli import levada
from java import hdfs_dfs


def jdk_modules() -> list[pathlib.Path]:
    home = pathlib.Path(shutil.which("javac")).resolve().parents[1]
    return sorted((home / "jmods").glob("*.jmod")) or sorted((home / "lib").glob("*.jar"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> pathlib.Path:
    """Some thousand small files, and some large ones that do not fit one block."""
    root = tmp_path_factory.mktemp("source") / "tree"
    skip = shutil.ignore_patterns("__pycache__", "site-packages", "*.so", "*.a", "idlelib", "lib2to3")
    shutil.copytree(
        sysconfig.get_path("stdlib"), root / "python", ignore=skip, symlinks=False, ignore_dangling_symlinks=True
    )
    (root / "jmods").mkdir()
    for module in jdk_modules():
        shutil.copy(module, root / "jmods")
    (root / "empty directory").mkdir()
    (root / "python" / "no content").touch()
    return root


class Shape:
    """What a tree holds, by its relative names."""

    def __init__(self, root: pathlib.Path):
        self.files, self.directories = {}, 1
        for folder, names, files in os.walk(root):
            self.directories += len(names)
            for name in files:
                path = pathlib.Path(folder, name)
                self.files[str(path.relative_to(root))] = path.stat().st_size
        self.bytes = sum(self.files.values())


def same(left: pathlib.Path, right: pathlib.Path):
    done = subprocess.run(["diff", "-r", "-q", str(left), str(right)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[:2000] + done.stderr[:2000]


@pytest.mark.timeout(900)
def test_tree_with_hdfs_dfs(store, root, native, tree, home, tmp_path):
    shape = Shape(tree)
    assert len(shape.files) > 1500
    hdfs_dfs(store.fs, "-put", "-t", 4, tree, home, options=["-D", "dfs.blocksize=16777216"], timeout=600)
    # list
    lines = hdfs_dfs(store.fs, "-ls", "-R", f"{home}/tree").stdout.splitlines()
    listed = {line.split(None, 7)[7].removeprefix(f"{home}/tree/"): line.split() for line in lines}
    files = {name: int(row[4]) for name, row in listed.items() if row[0].startswith("-")}
    assert files == shape.files
    assert len(listed) - len(files) == shape.directories - 1
    walked = native.call("walk", path=f"{home}/tree")
    assert walked == sorted(f"{home}/tree/{name}" for name in shape.files)
    # count, du
    directories, count, length, _ = hdfs_dfs(store.fs, "-count", f"{home}/tree").stdout.split(None, 3)
    assert (int(directories), int(count), int(length)) == (shape.directories, len(shape.files), shape.bytes)
    assert hdfs_dfs(store.fs, "-du", "-s", f"{home}/tree").stdout.split()[:2] == [
        str(shape.bytes),
        str(3 * shape.bytes),
    ]
    # rename, read back, compare
    hdfs_dfs(store.fs, "-mv", f"{home}/tree", f"{home}/moved")
    hdfs_dfs(store.fs, "-get", "-t", 4, f"{home}/moved", tmp_path, timeout=600)
    same(tree, tmp_path / "moved")
    # delete
    hdfs_dfs(store.fs, "-rm", "-r", "-skipTrash", f"{home}/moved")
    assert root.names(home) == []


@pytest.mark.timeout(900)
def test_tree_with_levada(store, root, tree, home, tmp_path):
    shape = Shape(tree)
    levada(store.fs, "put", "-r", tree, home, timeout=600)
    lines = levada(store.fs, "ls", "-R", "--json", f"{home}/tree").stdout.splitlines()
    assert len(lines) == len(shape.files) + shape.directories - 1
    summary = root.call("summary", path=f"{home}/tree")
    assert (summary["files"], summary["directories"], summary["length"]) == (
        len(shape.files),
        shape.directories,
        shape.bytes,
    )
    levada(store.fs, "mv", f"{home}/tree", f"{home}/moved")
    levada(store.fs, "get", "-r", f"{home}/moved", tmp_path, timeout=600)
    same(tree, tmp_path / "moved")
    # a copy inside the store, compared through the other client
    levada(store.fs, "cp", "-r", f"{home}/moved/python/json", f"{home}/json")
    hdfs_dfs(store.fs, "-get", f"{home}/json", tmp_path)
    same(tree / "python" / "json", tmp_path / "json")
    levada(store.fs, "rm", "-r", f"{home}/moved", f"{home}/json")
    assert root.names(home) == []
