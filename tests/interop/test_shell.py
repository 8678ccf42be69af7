"""`hdfs dfs` as people use it: every command that needs no more than what the store serves."""

import gzip
import os
import subprocess

import pytest

import content
from java import hdfs_dfs, shell_command, shell_environment
from paths import BLOCK


@pytest.fixture
def dfs(store):
    def run(*words, **how):
        return hdfs_dfs(store.fs, *words, **how)

    return run


def test_a_session(dfs, root, home, tmp_path):
    """mkdir, put, ls, cat, mv, cp, du, count, rm as in every tutorial."""
    local = tmp_path / "f"
    local.write_bytes(b"one\n" * 1000)
    dfs("-mkdir", "-p", f"{home}/a/b")
    dfs("-put", local, f"{home}/a/b/f")
    assert dfs("-put", local, f"{home}/a/b/f", check=False).returncode == 1  # exists
    dfs("-put", "-f", local, f"{home}/a/b/f")
    assert dfs("-cat", f"{home}/a/b/f").stdout == "one\n" * 1000
    line = dfs("-ls", f"{home}/a/b").stdout.splitlines()[-1].split()
    assert (line[0], line[1], line[4], line[7]) == ("-rw-r--r--", "3", "4000", f"{home}/a/b/f")
    dfs("-cp", f"{home}/a/b/f", f"{home}/a/copy")
    dfs("-mv", f"{home}/a/b/f", f"{home}/a/moved")
    assert root.names(f"{home}/a") == ["b", "copy", "moved"]
    assert dfs("-du", "-s", f"{home}/a").stdout.split()[:2] == ["8000", "24000"]
    assert dfs("-count", f"{home}/a").stdout.split()[:3] == ["2", "2", "8000"]
    assert dfs("-rm", f"{home}/a", check=False).returncode == 1  # a directory
    dfs("-rm", "-r", f"{home}/a")
    assert root.names(home) == []


def test_tests_and_stat(dfs, root, home):
    root.write(f"{home}/f", b"one")
    root.write(f"{home}/empty", b"")
    for flag, path, code in (
        ("-e", "f", 0), ("-e", "missing", 1), ("-d", "f", 1), ("-d", "", 0), ("-f", "f", 0),
        ("-s", "f", 0), ("-s", "empty", 1), ("-z", "empty", 0), ("-z", "f", 1), ("-r", "f", 0), ("-w", "f", 0),
    ):  # fmt: skip
        assert dfs("-test", flag, f"{home}/{path}", check=False).returncode == code, (flag, path)
    assert dfs("-stat", "%F %a %b %n %r", f"{home}/f").stdout == "regular file 644 3 f 3\n"


def test_touch_append_tail_head(dfs, root, home, tmp_path):
    dfs("-touchz", f"{home}/f")
    assert root.stat(f"{home}/f")["length"] == 0
    part = tmp_path / "part"
    part.write_bytes(b"x" * 999 + b"\n")
    for _ in range(3):
        dfs("-appendToFile", part, f"{home}/f")
    assert root.read(f"{home}/f") == part.read_bytes() * 3
    assert dfs("-tail", f"{home}/f").stdout == part.read_text()[-24:] + part.read_text()
    assert dfs("-head", f"{home}/f").stdout == part.read_text() + "x" * 24
    dfs("-touch", "-m", "-t", "20200102:030405", f"{home}/f")
    assert dfs("-stat", "%y", f"{home}/f").stdout.startswith("2020-01-0")


def test_text_merge_and_find(dfs, root, home, tmp_path):
    root.write(f"{home}/d/a.gz", gzip.compress(b"compressed\n"))
    root.write(f"{home}/d/b.txt", b"plain\n")
    assert dfs("-text", f"{home}/d/a.gz").stdout == "compressed\n"
    dfs("-getmerge", f"{home}/d/b.txt", f"{home}/d/b.txt", tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == b"plain\nplain\n"
    assert dfs("-find", home, "-name", "*.txt").stdout == f"{home}/d/b.txt\n"


def test_standard_input_and_output(store, root, home):
    data = content.make(2 * BLOCK + 5)
    command = shell_command(store.fs, "-put", "-", f"{home}/f", options=["-D", f"dfs.blocksize={BLOCK}"])
    subprocess.run(command, input=data, check=True, env=shell_environment())
    assert root.read(f"{home}/f") == data
    done = subprocess.run(shell_command(store.fs, "-cat", f"{home}/f"), capture_output=True, check=True)
    assert done.stdout == data


def test_put_keeps_what_is_asked(dfs, root, home, tmp_path):
    local = tmp_path / "f"
    local.write_bytes(b"one")
    local.chmod(0o640)
    os.utime(local, (1_000_000_000, 1_000_000_000))
    dfs("-put", "-p", local, f"{home}/f")
    status = root.stat(f"{home}/f")
    assert (status["mode"], status["modified"]) == ("640", 1_000_000_000_000)
    dfs("-get", "-p", f"{home}/f", tmp_path / "back")
    assert (tmp_path / "back").stat().st_mtime == 1_000_000_000


def test_put_direct_and_many_at_once(dfs, root, home, tmp_path):
    files = []
    for i in range(40):
        files.append(tmp_path / f"f{i:02d}")
        files[-1].write_bytes(content.make(i * 1000, i))
    dfs("-put", "-d", "-t", 8, *files, home)
    for i, file in enumerate(files):
        assert root.read(f"{home}/{file.name}") == content.make(i * 1000, i)
    (tmp_path / "back").mkdir()
    dfs("-get", "-t", 8, f"{home}/*", tmp_path / "back")
    assert all((tmp_path / "back" / file.name).read_bytes() == file.read_bytes() for file in files)


def test_df_and_replication(dfs, root, home):
    root.write(f"{home}/f", b"one")
    assert "Filesystem" in dfs("-df", "/").stdout
    assert dfs("-setrep", "2", f"{home}/f").stdout == f"Replication 2 set: {home}/f\n"
    assert root.stat(f"{home}/f")["replication"] == 2


def test_missing_paths_end_with_1(dfs, home, tmp_path):
    for words in (
        ("-ls", f"{home}/missing"), ("-cat", f"{home}/missing"), ("-rm", f"{home}/missing"),
        ("-mv", f"{home}/missing", f"{home}/x"), ("-get", f"{home}/missing", tmp_path / "x"),
        ("-checksum", f"{home}/missing"), ("-count", f"{home}/missing"), ("-mkdir", f"{home}/a/b"),
    ):  # fmt: skip
        done = dfs(*words, check=False)
        assert done.returncode == 1, words
        assert "No such file or directory" in done.stderr, (words, done.stderr)


@pytest.mark.levada
def test_commands_that_are_not_served_fail_cleanly(dfs, root, home):
    """The server does not know the method; the client says so and the file is as before."""
    root.write(f"{home}/f", b"one")
    for words in (("-createSnapshot", home), ("-deleteSnapshot", home, "s")):
        done = dfs(*words, check=False)
        assert done.returncode != 0, words
        assert done.stderr.strip()
    assert root.read(f"{home}/f") == b"one"
