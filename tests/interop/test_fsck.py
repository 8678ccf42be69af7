"""`hdfs fsck`, unmodified: what it prints, and its exit code."""

import re

import pytest

import content
from java import run_tool
from paths import BLOCK
from replicas import write
from roles import Roles
from store import SUPERUSER, eventually

pytestmark = pytest.mark.levada


def fsck(fs, http, *words, user=SUPERUSER):
    """Gives the exit code and what was printed, times taken out."""
    options = ["-D", f"fs.defaultFS={fs}", "-D", f"dfs.namenode.http-address={http}"]
    done = run_tool("org.apache.hadoop.hdfs.tools.DFSck", *options, *words, user=user)
    return done.returncode, re.sub(r"\w{3} \w{3} \d\d [\d:]{8} \w+ \d{4}( in \d+ mill)?", "TIME", done.stdout)


@pytest.fixture
def check(store):
    return lambda *words, **how: fsck(store.fs, store.http.removeprefix("http://"), *words, **how)


def test_a_healthy_tree(check, store, root, home):
    write(store, root, {f"{home}/empty": b"", f"{home}/two": content.make(BLOCK + 500)})
    code, out = check(home)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"FSCK started by {SUPERUSER} (auth:SIMPLE) from /127.0.0.1 for path {home} at TIME"
    assert lines[-1] == f"The filesystem under path '{home}' is HEALTHY"
    for line in (
        "Status: HEALTHY",
        " Number of data-nodes:\t3",
        " Total dirs:\t\t\t1",
        f" Total size:\t{BLOCK + 500} B",
        " Total files:\t2",
        f" Total blocks (validated):\t2 (avg. block size {(BLOCK + 500) // 2} B)",
        " Minimally replicated blocks:\t2 (100.0 %)",
        " Under-replicated blocks:\t0 (0.0 %)",
        " Average block replication:\t3.0",
        " Missing replicas:\t\t0 (0.0 %)",
    ):
        assert line in lines, f"{line!r} is not in\n{out}"


def test_files_blocks_and_locations(check, store, root, home):
    root.mkdirs(f"{home}/a")
    write(store, root, {f"{home}/a/f": content.make(100), f"{home}/z ü": content.make(BLOCK + 7)})
    code, out = check(home, "-files", "-blocks", "-locations")
    assert code == 0
    assert f"{home} <dir>\n{home}/a <dir>\n{home}/a/f 100 bytes, replicated: replication=3, 1 block(s):  OK\n" in out
    assert f"{home}/z ü {BLOCK + 7} bytes, replicated: replication=3, 2 block(s):  OK\n" in out
    place = r"DatanodeInfoWithStorage\[127\.0\.0\.1:\d+,[\w-]+,DISK\]"
    assert re.search(rf"\n0\. BP-[\w.-]+:blk_\d+_\d+ len=100 Live_repl=3  \[{place}, {place}, {place}\]\n", out), out
    assert re.search(r"\n1\. BP-[\w.-]+:blk_\d+_\d+ len=7 Live_repl=3  \[", out), out
    # One block, by its name.
    name = re.search(r"(blk_\d+)_\d+ len=100", out)[1]
    code, out = check("-blockId", name)
    assert (
        f"Block Id: {name}\nBlock belongs to: {home}/a/f\nNo. of Expected Replica: 3\nNo. of live Replica: 3\n" in out
    )
    assert out.count("is HEALTHY") == 3


def test_open_files_are_counted_apart(check, root, home):
    out = root.create(f"{home}/open")
    out.write(content.make(100))
    out.hflush()
    code, said = check(home)
    assert code == 0 and "(Files currently being written: 1)" in said
    code, said = check(home, "-openforwrite")
    assert code == 0 and f"{home}/open " in said and "OPENFORWRITE" in said
    out.close()


def test_what_is_not_there_and_what_is_refused(check, root, home):
    assert check(f"{home}/missing") == (0, ""), "the client looks by itself first, and tells it as an error"
    assert check(home, "-list-corruptfileblocks") == (0, f"The filesystem under path '{home}' has 0 CORRUPT blocks\n")
    root.mkdirs(f"{home}/secret")
    root.call("set-permission", path=f"{home}/secret", mode="700")
    code, out = check(f"{home}/secret", user="alice")
    assert code != 0
    assert "Permission denied: user=alice" in out and out.endswith(f"Fsck on path '{home}/secret' FAILED\n")
    code, out = check(home, "-delete")
    assert code != 0 and "not served" in out
    assert root.exists(f"{home}/secret")


def test_blocks_that_nobody_has(tmp_path, java):
    """Short while one node is gone, corrupt when all are; and healthy again when they return."""
    roles = Roles(tmp_path / "roles")
    try:
        write(roles, java.mount(roles.fs, SUPERUSER), {"/f": content.make(1000)})
        check = lambda *words: fsck(roles.fs, roles.http, *words)
        assert check("/")[0] == 0
        roles.kill("data1")

        def says(code, what):
            def ask():
                found = check("/")
                return found if found[0] == code and what in found[1] else None

            return eventually(ask, 60, f"{code}: {what}", every=1)

        out = says(0, "Under replicated")[1]
        assert "Target Replicas is 3 but found 2 live replica(s)" in out
        assert " Missing replicas:\t\t1 (33.333332 %)" in out
        roles.kill("data2", "data3")
        out = says(1, "/f: MISSING 1 blocks of total size 1000 B.")[1]
        assert out.splitlines()[-1] == "The filesystem under path '/' is CORRUPT"
        for name in roles.names:
            roles.start(name)
        says(0, "is HEALTHY")
    finally:
        roles.stop()
