"""The `levada` command line: stories as a user would tell them. It works on any HDFS, so these run against one, too."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest

import content
import paths
from cli import levada
from java import hdfs_dfs
from paths import BLOCK
from store import eventually

pytestmark = pytest.mark.skipif(not paths.LEVADA.exists(), reason="levada is not built")


@pytest.fixture
def run(store):
    def call(*words, **how):
        return levada(store.fs, *words, **how)

    return call


def lines(done) -> list[str]:
    return done.stdout.splitlines()


def objects(done) -> list[dict]:
    return [json.loads(line) for line in lines(done)]


class TestStories:
    def test_a_day_with_it(self, run, root, home, tmp_path):
        """mkdir, put, ls, cat, mv, cp, du, count, get, rm."""
        (tmp_path / "f").write_bytes(content.make(3000))
        run("mkdir", "-p", f"{home}/a/b")
        run("put", tmp_path / "f", f"{home}/a/b")
        assert root.read(f"{home}/a/b/f") == content.make(3000)
        assert run("cat", f"{home}/a/b/f", text=False).stdout == content.make(3000)
        run("mv", f"{home}/a/b/f", f"{home}/a/g")
        run("cp", f"{home}/a/g", f"{home}/a/h")
        assert lines(run("ls", "-C", f"{home}/a")) == [f"{home}/a/b", f"{home}/a/g", f"{home}/a/h"]
        assert lines(run("ls", "-C", "-r", f"{home}/a")) == [f"{home}/a/h", f"{home}/a/g", f"{home}/a/b"]
        assert lines(run("du", "-s", f"{home}/a"))[0].split() == ["6000", "18000", f"{home}/a"]
        assert lines(run("count", f"{home}/a"))[0].split() == ["2", "2", "6000", f"{home}/a"]
        run("get", f"{home}/a/h", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content.make(3000)
        run("rm", "-r", f"{home}/a")
        assert not root.exists(f"{home}/a")

    def test_ls_shows_what_hdfs_dfs_shows(self, store, run, root, home):
        root.write(f"{home}/f", content.make(1234), replication=2)
        root.mkdirs(f"{home}/d", mode="700")
        root.call("set-owner", path=f"{home}/f", owner="bob", group="staff")
        ours = [line.split() for line in lines(run("ls", home))]
        theirs = [line.split() for line in lines(hdfs_dfs(store.fs, "-ls", home))[1:]]
        assert lines(run("ls", "-l", home)) == lines(run("ls", home))
        for our, their in zip(ours, theirs, strict=True):
            assert our[:5] == their[:5] and our[-1] == their[-1]

    def test_globs(self, run, root, home):
        for name in ("a1", "a2", "b1", "[x]", "sub/a3"):
            root.write(f"{home}/{name}", name.encode())
        assert run("cat", f"{home}/a?").stdout == "a1a2"
        assert run("cat", f"{home}/{{a1,b1}}").stdout == "a1b1"
        assert run("cat", f"{home}/*/a[0-9]").stdout == "sub/a3"
        assert run("cat", f"{home}/\\[x\\]").stdout == "[x]"
        assert run("cat", f"{home}/nothing*", check=False).returncode == 1
        run("rm", f"{home}/a*")
        assert root.names(home) == ["[x]", "b1", "sub"]

    def test_pipes(self, run, root, home):
        data = content.make(2 * BLOCK + 77)
        run("put", "-", f"{home}/f", stdin=data, text=False)
        assert root.read(f"{home}/f") == data
        assert run("get", f"{home}/f", "-", text=False).stdout == data

    def test_reader_of_a_pipe_that_has_enough(self, store, root, home):
        """`levada cat big | head -c 10`: no complaint, and success."""
        root.write(f"{home}/f", content.make(5 * BLOCK))
        script = f"set -o pipefail; {paths.LEVADA} cat {home}/f | head -c 10 | wc -c"
        done = subprocess.run(
            ["bash", "-c", script], env={**os.environ, "LEVADA_URL": store.fs}, capture_output=True, text=True
        )
        assert (done.stdout.strip(), done.stderr, done.returncode) == ("10", "", 0)

    def test_tail(self, run, root, home):
        text = "".join(f"line {i}\n" for i in range(5000))
        root.write(f"{home}/f", text.encode())
        assert run("tail", "-n", 3, f"{home}/f").stdout == "line 4997\nline 4998\nline 4999\n"
        assert run("tail", "-c", 10, f"{home}/f").stdout == text[-10:]

    def test_tail_follows_a_file_that_grows(self, store, root, home):
        out = root.create(f"{home}/log")
        out.write(b"one\n")
        out.hflush()
        tail = subprocess.Popen(
            [str(paths.LEVADA), "tail", "-f", f"{home}/log"],
            env={**os.environ, "LEVADA_URL": store.fs},
            stdout=subprocess.PIPE,
        )
        assert tail.stdout.readline() == b"one\n"
        out.write(b"two\n")
        out.hflush()
        assert tail.stdout.readline() == b"two\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(5) == 130
        out.close()

    def test_checksum_is_that_of_hdfs_dfs(self, store, run, root, home):
        for name, length in (("a", 0), ("b", 1000), ("c", 3 * BLOCK + 1)):
            root.write(f"{home}/{name}", content.make(length))
        assert run("checksum", f"{home}/*").stdout == hdfs_dfs(store.fs, "-checksum", f"{home}/*").stdout

    def test_explain_says_where_columns_lie(self, run, root, home):
        golden = paths.ROOT / "crates" / "layout" / "tests" / "golden" / "pyarrow-pages.parquet"
        root.write(f"{home}/table", golden.read_bytes())
        root.write(f"{home}/garbage.parquet", content.make(1000))
        table, garbage = objects(run("explain", "read", "--json", f"{home}/table", f"{home}/garbage.parquet"))
        assert garbage["layout"] is None and garbage["reason"]
        if table["layout"] is None:
            assert "does not read layouts" in table["reason"]  # HDFS
            return
        assert table["layout"]["format"] == "Parquet"
        columns = table["layout"]["tables"][0]["columns"]
        assert columns and sum(column["len"] for column in columns) == table["layout"]["data_len"]
        assert f"{len(columns)} columns" in run("explain", "read", f"{home}/table").stdout

    def test_modes_owners_times_replication(self, run, root, home):
        root.write(f"{home}/d/f", b"one")
        run("chmod", "-R", "u=rwx,g=rx,o=", f"{home}/d")
        run("chown", "-R", "bob:staff", f"{home}/d")
        run("touch", "-m", "-t", "2020-01-02 03:04:05", f"{home}/d/f")
        run("setrep", 2, f"{home}/d")
        status = root.stat(f"{home}/d/f")
        assert (status["mode"], status["owner"], status["group"], status["replication"]) == ("750", "bob", "staff", 2)
        assert status["modified"] == 1_577_934_245_000
        run("touch", f"{home}/new")
        assert root.stat(f"{home}/new")["length"] == 0

    def test_preserve(self, run, root, home, tmp_path):
        local = tmp_path / "f"
        local.write_bytes(b"one")
        local.chmod(0o604)
        os.utime(local, (1_000_000_000, 1_000_000_000))
        run("put", "-p", local, f"{home}/f")
        status = root.stat(f"{home}/f")
        assert (status["mode"], status["modified"]) == ("604", 1_000_000_000_000)
        run("get", "-p", f"{home}/f", tmp_path / "g")
        assert (tmp_path / "g").stat().st_mtime == 1_000_000_000
        assert (tmp_path / "g").stat().st_mode & 0o777 == 0o604

    def test_preserve_takes_no_rights_before_their_time(self, run, root, home, tmp_path):
        """A directory and a file that their owner may not write keep that, and their times, only when all is there."""
        (tmp_path / "t/closed").mkdir(parents=True)
        (tmp_path / "t/closed/f").write_text("one")
        (tmp_path / "t/closed/f").chmod(0o444)
        (tmp_path / "t/closed").chmod(0o555)
        for path in ("t/closed/f", "t/closed", "t"):
            os.utime(tmp_path / path, (1_600_000_000, 1_600_000_000))
        root.call("set-permission", path=home, mode="777")
        run("put", "-p", tmp_path / "t", f"{home}/t", user="ann")
        for line in objects(run("ls", "-R", "--json", home)):
            assert line["modified"] == 1_600_000_000_000, line
        assert run("cat", f"{home}/t/closed/f").stdout == "one"

    def test_special_files(self, run, root, home, tmp_path):
        """A pipe that is named is read, or written to; one that lies in a tree is passed over; loops of links end."""
        tree = tmp_path / "tree"
        for name in ("a", "b"):
            (tree / name).mkdir(parents=True)
            (tree / name / "f").write_text(name)
        (tree / "a/over").symlink_to("../b")
        (tree / "b/over").symlink_to("../a")
        (tree / "a/up").symlink_to("../..")
        os.mkfifo(tree / "pipe")
        done = run("put", tree, home, check=False, timeout=30)
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 5 and "pipe: is not a file" in done.stderr
        assert root.names(f"{home}/tree/a") == ["f", "over"] and root.names(f"{home}/tree/a/over") == ["f"]
        writer = subprocess.Popen(["sh", "-c", f"echo through > {tree}/pipe"])
        run("put", tree / "pipe", f"{home}/p")
        assert writer.wait(10) == 0 and root.read(f"{home}/p") == b"through\n"
        reader = subprocess.Popen(["cat", tree / "pipe"], stdout=subprocess.PIPE)
        run("get", "-f", f"{home}/p", tree / "pipe")
        assert reader.communicate(timeout=10)[0] == b"through\n" and (tree / "pipe").is_fifo()

    def test_links_stay_links(self, run, root, home, tmp_path):
        root.write(f"{home}/f", b"new")
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to("real")
        assert run("get", f"{home}/f", tmp_path / "link", check=False).returncode == 1
        run("get", "-f", f"{home}/f", tmp_path / "link")
        assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"

    def test_longest_names(self, run, root, home, tmp_path):
        """A name may be as long as the store and the disk have it, without room for what a copy adds to it
        meanwhile."""
        names = ["n" * 254 + end for end in "ab"]
        (tmp_path / "to").mkdir()
        for name in names:
            (tmp_path / name).write_text(name[-1])
        run("put", *(tmp_path / name for name in names), home)
        run("get", *(f"{home}/{name}" for name in names), tmp_path / "to")
        assert sorted(path.name for path in (tmp_path / "to").iterdir()) == names == root.names(home)
        assert [(tmp_path / "to" / name).read_text() for name in names] == ["a", "b"]

    def test_local_names_that_are_no_utf8(self, run, root, home, tmp_path):
        """Names in the store are UTF-8: each that is not is named byte by byte, and the rest is copied."""
        odd = os.fsencode(tmp_path) + b"/caf\xe9"
        (tmp_path / "tree").mkdir()
        for path in (odd, os.fsencode(tmp_path) + b"/tree/\xff", tmp_path / "tree/f", tmp_path / "f"):
            with open(path, "w") as file:
                file.write("x")
        done = run("put", os.fsdecode(odd), tmp_path / "tree", tmp_path / "f", home, check=False)
        told = sorted(line.split(": ")[2] for line in done.stderr.splitlines())
        assert (done.returncode, told) == (1, [f"{tmp_path}/caf\\xE9", f"{tmp_path}/tree/\\xFF"]), done.stderr
        assert done.stderr.count("is not UTF-8") == 2
        assert root.names(home) == ["f", "tree"] and root.names(f"{home}/tree") == ["f"]
        run("put", os.fsdecode(odd), f"{home}/named")
        run("get", f"{home}/named", os.fsdecode(odd + b"2"))
        assert open(odd + b"2").read() == root.read(f"{home}/named").decode() == "x"
        assert run("get", os.fsdecode(odd), tmp_path / "no", check=False).returncode == 1

    def test_quotas(self, store, run, root, home, tmp_path):
        """As `hdfs dfs -count -q` has them, also where there is more than the quota allows."""
        for number in range(3):
            root.write(f"{home}/d/f{number}", content.make(1000), replication=2)
        root.call("set-quota", path=f"{home}/d", names=3, space=1 << 30)
        for words in (["-q", home, f"{home}/d"], ["-q", "-h", "-v", f"{home}/d"]):
            assert lines(run("count", *words)) == lines(hdfs_dfs(store.fs, "-count", *words))
        counted = objects(run("count", "--json", f"{home}/d"))[0]
        assert (counted["quota"], counted["remaining_quota"]) == (3, -1)
        assert (counted["space_quota"], counted["remaining_space_quota"]) == (1 << 30, (1 << 30) - 6000)
        assert "quota" not in objects(run("count", "--json", home))[0]

    def test_relative_paths_lead_to_the_home_directory(self, store, run, root, tmp_path):
        """One that is not there is told as what it is, by both; `up` makes that of who starts it."""
        (tmp_path / "f").write_text("x")
        for words in (("ls",), ("ls", "."), ("put", tmp_path / "f", "g"), ("put", tmp_path / "f", ".")):
            done = run(*words, user="nobody-yet", check=False)
            assert done.returncode == 1 and "/user/nobody-yet" in done.stderr and "mkdir -p" in done.stderr, done.stderr
        done = hdfs_dfs(store.fs, "-ls", user="nobody-yet", check=False)
        assert done.returncode == 1 and "No such file or directory" in done.stderr
        root.mkdirs("/user/ann/d")
        for path in ("/user/ann", "/user/ann/d"):
            root.call("set-owner", path=path, owner="ann", group="ann")
        run("put", tmp_path / "f", "d/g", user="ann")
        assert run("cat", "d/g", user="ann").stdout == hdfs_dfs(store.fs, "-cat", "d/g", user="ann").stdout == "x"
        assert lines(run("ls", "-C", user="ann")) == ["/user/ann/d"]
        assert hdfs_dfs(store.fs, "-ls", "-C", user="ann").stdout == "d\n"
        root.delete("/user/ann")

    def test_df(self, run):
        space = objects(run("df", "--json"))[0]
        assert space["capacity"] > 0 and space["remaining"] > 0
        assert "Use%" in run("df").stdout

    def test_whole_urls(self, store, run, root, home):
        root.write(f"{home}/f", b"one")
        assert levada("hdfs://127.0.0.1:1", "cat", f"{store.fs}{home}/f").stdout == "one"
        assert lines(levada("hdfs://127.0.0.1:1", "ls", "-C", f"{store.fs}{home}")) == [f"{store.fs}{home}/f"]

    def test_the_store_of_hadoops_configuration(self, store, root, home, tmp_path):
        """As `hdfs` takes it, when nobody names another."""
        root.write(f"{home}/f", b"one")
        core = "<configuration><property><name>fs.defaultFS</name><value>{}</value></property></configuration>"
        (tmp_path / "core-site.xml").write_text(core.format(store.fs))
        environment = {"HADOOP_CONF_DIR": str(tmp_path)}
        assert levada("", "cat", f"{home}/f", environment=environment).stdout == "one"
        assert "cannot reach" in levada("hdfs://127.0.0.1:1", "ls", "/", environment=environment, check=False).stderr
        (tmp_path / "core-site.xml").write_text(core.format("hdfs://h:x"))
        assert "fs.defaultFS" in levada("", "ls", "/", environment=environment, check=False).stderr

    def test_sizes_and_addresses_that_make_no_sense(self, store, run, root, home):
        data = "0123456789" * 200
        root.write(f"{home}/f", data.encode())
        assert run("tail", "-c", "1.5K", f"{home}/f").stdout == data[-1536:]
        for size in ("1.5", "1..5M"):
            assert "no number of bytes" in run("tail", "-c", size, f"{home}/f", check=False).stderr
        assert "--routing star" in run("bench", "write", "--leader", "127.0.0.1", check=False).stderr

    def test_between_two_stores(self, store, run, root, home):
        root.write(f"{home}/f", content.make(BLOCK + 5))
        run("cp", f"{store.fs}{home}/f", f"{store.fs}{home}/g")
        assert root.read(f"{home}/g") == content.make(BLOCK + 5)


class TestJson:
    def test_every_command_that_prints(self, run, root, home, tmp_path):
        root.write(f"{home}/f", content.make(700), replication=2)
        entry = objects(run("ls", "--json", home))[0]
        assert (entry["path"], entry["type"], entry["len"], entry["mode"], entry["replication"]) == (
            f"{home}/f",
            "file",
            700,
            "0644",
            2,
        )
        assert objects(run("stat", "--json", f"{home}/f")) == [entry]
        assert objects(run("count", "--json", home))[0]["file_count"] == 1
        assert objects(run("du", "-s", "--json", home))[0]["space_consumed"] == 1400
        assert objects(run("checksum", "--json", f"{home}/f"))[0]["algorithm"] == "MD5-of-0MD5-of-512CRC32C"
        assert objects(run("get", "--json", f"{home}/f", tmp_path))[0]["len"] == 700
        assert objects(run("put", "--json", tmp_path / "f", f"{home}/g"))[0]["len"] == 700
        assert objects(run("rm", "--json", f"{home}/g")) == [{"removed": f"{home}/g"}]


class TestExitCodes:
    def test_failures_are_1_and_say_where(self, store, run, root, home, tmp_path):
        root.write(f"{home}/f", b"one")
        for words in (
            ("ls", f"{home}/missing"), ("cat", f"{home}/missing"), ("cat", home), ("stat", f"{home}/missing"),
            ("rm", f"{home}/missing"), ("rm", home), ("mkdir", f"{home}/f"), ("mkdir", f"{home}/x/y"),
            ("get", f"{home}/missing"), ("put", tmp_path / "missing", f"{home}/x"),
            ("mv", f"{home}/missing", f"{home}/x"), ("checksum", f"{home}/missing"), ("put", __file__, f"{home}/f"),
            ("chmod", "600", f"{home}/missing"), ("du", f"{home}/missing"),
        ):  # fmt: skip
            done = run(*words, check=False)
            assert done.returncode == 1, (words, done)
            assert done.stderr.startswith(f"levada: {words[0]}: ") and done.stdout == "", (words, done)
        assert root.read(f"{home}/f") == b"one"

    def test_usage_is_2(self, run):
        for words in ((), ("nonsense",), ("ls", "--nonsense"), ("put",), ("test", "/"), ("explain", "read"),
                      ("explain", "/", "--columns", "x"), ("test", "-e", "htp://x/"), ("ls", "/{a"),
                      ("rm", "-r", "/{a")):  # fmt: skip
            assert run(*words, check=False).returncode == 2, words
        assert levada("nonsense://x", "ls", check=False).returncode == 2

    def test_an_address_that_is_none_does_not_stop_the_rest(self, run, root, home):
        root.write(f"{home}/a", b"one")
        done = run("cat", "htp://x/", f"{home}/missing", f"{home}/a", check=False)
        assert (done.returncode, done.stdout) == (2, "one")
        assert "htp://x/: " in done.stderr and "hdfs://" in done.stderr

    def test_what_is_written_has_the_name_that_was_given(self, run, root, home, tmp_path):
        """Not that of the temporary file."""
        (tmp_path / "f").write_bytes(b"x")
        root.write(f"{home}/f", b"one")
        refused = [("put", "-f", tmp_path / "f", f"{home}/a:b"), ("cp", "-f", f"{home}/f", f"{home}/a:b")]
        run("admin", "safemode", "enter")
        try:
            for words in (("put", tmp_path / "f", f"{home}/g"), ("put", "-", f"{home}/g")):
                done = run(*words, check=False, stdin="x")
                assert done.returncode == 1 and f"{home}/g. Name node is in safe mode" in done.stderr, done.stderr
                assert "_COPYING_" not in done.stderr
        finally:
            run("admin", "safemode", "leave")
        for words in refused:
            done = run(*words, check=False)
            assert done.returncode == 1 and "a:b" in done.stderr and "_COPYING_" not in done.stderr, done.stderr

    def test_a_local_directory_that_is_missing_is_named(self, run, root, home, tmp_path):
        root.write(f"{home}/d/f", b"one")
        for source in (f"{home}/d/f", f"{home}/d"):
            done = run("get", source, tmp_path / "missing/x", check=False)
            assert done.returncode == 1 and f"{tmp_path}/missing: no such directory" in done.stderr, done.stderr
        assert not list(tmp_path.iterdir())

    def test_one_bad_operand_does_not_stop_the_rest(self, run, root, home):
        root.write(f"{home}/a", b"one")
        root.write(f"{home}/b", b"two")
        done = run("cat", f"{home}/a", f"{home}/missing", f"{home}/b", check=False)
        assert (done.returncode, done.stdout) == (1, "onetwo")

    def test_test(self, run, root, home):
        root.write(f"{home}/f", b"one")
        root.write(f"{home}/empty", b"")
        for flag, path, code in (
            ("-e", "f", 0), ("-e", "missing", 1), ("-d", "f", 1), ("-d", "", 0), ("-f", "f", 0), ("-f", "", 1),
            ("-s", "f", 0), ("-s", "empty", 1), ("-z", "empty", 0), ("-z", "f", 1), ("-r", "f", 0), ("-w", "f", 0),
        ):  # fmt: skip
            done = run("test", flag, f"{home}/{path}", check=False)
            assert (done.returncode, done.stdout, done.stderr) == (code, "", ""), (flag, path)

    def test_nobody_listens(self):
        begun = time.monotonic()
        done = levada("hdfs://127.0.0.1:1", "ls", "/", check=False)
        assert done.returncode == 1 and "127.0.0.1:1" in done.stderr
        assert time.monotonic() - begun < 20

    def test_who_waits_is_told_for_how_long(self):
        done = levada("hdfs://127.0.0.1:1", "ls", "/", check=False, environment={"LEVADA_PATIENCE": "1s"})
        assert "waiting for it for 1 s more" in done.stderr

    @pytest.mark.levada
    def test_a_web_port_is_told_from_a_server_that_broke(self, store):
        """One advice, and no second one that says otherwise."""
        web = store.http.removeprefix("http://")
        done = levada(f"hdfs://{web}", "ls", "/", check=False, environment={"LEVADA_PATIENCE": "30s"})
        assert done.returncode == 1 and "it is HTTP" in done.stderr, done.stderr
        assert done.stderr.count("(") == 1 and "the metadata server's RPC port, 8020" in done.stderr, done.stderr
        gateway = levada(store.fs, "ls", "/", "--gateway", web, check=False)
        assert f"through the gateway {web}" in gateway.stderr and "8030" in gateway.stderr, gateway.stderr
        assert "8020 if" not in gateway.stderr, gateway.stderr

    def test_what_can_only_be_a_directory(self, run, root, home, tmp_path):
        """No file is made in the place of a directory that is missing; a file in the place of one is told once."""
        (tmp_path / "d").mkdir()
        for name in ("f", "d/1", "d/2"):
            (tmp_path / name).write_text("x")
        root.mkdirs(f"{home}/full/of")
        root.write(f"{home}/file", b"x")
        for to in ("new/", "new/.", "new"):
            sources = [tmp_path / "f"] * (2 if to == "new" else 1)
            assert run("put", *sources, f"{home}/{to}", check=False).returncode == 1
            assert (
                run("mv", *[f"{home}/full", f"{home}/file"][: len(sources)], f"{home}/{to}", check=False).returncode
                == 1
            )
        assert root.names(home) == ["file", "full"]
        for words in (["put", "-f", tmp_path / "d", f"{home}/file"], ["cp", "-f", f"{home}/full", f"{home}/file"],
                      ["get", f"{home}/full", tmp_path / "f"]):  # fmt: skip
            done = run(*words, check=False)
            assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr

    def test_an_empty_path_is_not_the_home_directory(self, run, root, home):
        """What a script makes of a variable that is not set must not remove all that a user has."""
        root.write("/user/ann/f", b"x")
        assert run("rm", "-r", "", user="ann", check=False).returncode == 2
        assert root.exists("/user/ann/f")
        root.delete("/user/ann", True)

    def test_whose_store(self, store, run, root, home):
        """Without a host it is the store of $LEVADA_URL; a variable that makes no sense is named."""
        root.write(f"{home}/f", b"x")
        assert run("cat", f"hdfs://{home}/f").stdout == "x"
        done = levada("nonsense", "ls", "/", check=False)
        assert done.returncode == 2 and "nonsense" in done.stderr and "LEVADA_URL" in done.stderr

    def test_another_user(self, run, root, home):
        root.write(f"{home}/f", b"one")
        root.call("set-permission", path=f"{home}/f", mode="600")
        done = run("cat", f"{home}/f", user="mallory", check=False)
        assert done.returncode == 1 and "ermission" in done.stderr


def is_filled(pipe) -> bool:
    """So far that the next write waits: pages in it may have room left that nobody uses."""
    waiting = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
    return waiting > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) // 2


class TestInterrupt:
    def interrupted(self, store, command, feed=b"", after=None) -> bool:
        """False if it was done before the signal came."""
        process = subprocess.Popen(
            [str(paths.LEVADA), *map(str, command)],
            env={**os.environ, "LEVADA_URL": store.fs},
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        if feed:
            process.stdin.write(feed)
            process.stdin.flush()
        if after:
            eventually(after, 30, "it has begun", every=0.01)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        code = process.wait(15)
        assert time.monotonic() - begun < 8
        assert code in (0, 130), process.stderr.read()
        return code == 130

    def test_put_leaves_nothing(self, store, root, home):
        assert self.interrupted(
            store, ["put", "-", f"{home}/f"], feed=content.make(3_000_000), after=lambda: root.names(home)
        )
        assert root.names(home) == []

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_cat_that_nobody_reads_ends(self, store, root, home, number):
        """As before a pager: the pipe is full, and still the signal ends it."""
        root.write(f"{home}/f", content.make(1_000_000))
        for _ in range(5):
            process = subprocess.Popen(
                [str(paths.LEVADA), "cat", f"{home}/f"],
                env={**os.environ, "LEVADA_URL": store.fs},
                stdout=subprocess.PIPE,
            )
            eventually(lambda: is_filled(process.stdout), 30, "the pipe is full", every=0.01)
            process.send_signal(number)
            assert process.wait(10) == 128 + number
            process.stdout.close()

    def test_get_leaves_nothing(self, store, root, home, tmp_path):
        """Begun, then interrupted: what is there is whole, and nothing has a temporary name."""
        local = tmp_path / "one"
        local.write_bytes(content.make(20_000))
        for first in range(0, 1500, 100):
            for one in [root.start("put", local=str(local), path=f"{home}/f{first + i}") for i in range(100)]:
                one.get()
        for number in range(10):
            back = tmp_path / f"back{number}"
            if self.interrupted(store, ["get", home, back], after=lambda: back.exists() and any(back.iterdir())):
                break
        else:
            pytest.fail("it was done each time before the signal came")
        left = [path for path in back.rglob("*") if path.is_file()]
        assert len(left) < 1500
        assert all(path.stat().st_size == 20_000 and "COPYING" not in path.name for path in left)


class TestTwoAtOnce:
    """Two copy to one name: one of them is there in the end, whole, and what somebody called like a temporary file
    stays."""

    def together(self, store, commands) -> list[int]:
        environment = {**os.environ, "LEVADA_URL": store.fs}
        running = [subprocess.Popen([str(paths.LEVADA), *map(str, command)], env=environment) for command in commands]
        return [process.wait(120) for process in running]

    def test_put(self, store, root, home, tmp_path):
        files = [content.make(9_000_000), b"x" * 9_000_000]
        for name, data in zip("ab", files):
            (tmp_path / name).write_bytes(data)
        root.write(f"{home}/f._COPYING_", b"mine")
        for _ in range(3):
            assert self.together(store, [["put", "-f", tmp_path / name, f"{home}/f"] for name in "ab"]) == [0, 0]
            assert root.read(f"{home}/f") in files
        assert sorted(root.names(home)) == ["f", "f._COPYING_"] and root.read(f"{home}/f._COPYING_") == b"mine"

    def test_get(self, store, root, home, tmp_path):
        files = [content.make(9_000_000), b"x" * 8_000_000]
        for name, data in zip("ab", files):
            root.write(f"{home}/{name}", data)
        (tmp_path / "f._COPYING_").write_bytes(b"mine")
        for _ in range(3):
            assert self.together(store, [["get", "-f", f"{home}/{name}", tmp_path / "f"] for name in "ab"]) == [0, 0]
            assert (tmp_path / "f").read_bytes() in files
        assert {path.name for path in tmp_path.iterdir()} == {"f", "f._COPYING_"}
        assert (tmp_path / "f._COPYING_").read_bytes() == b"mine"


class TestTerminal:
    def test_progress_shows_on_a_terminal_only(self, store, run, home, tmp_path):
        local = tmp_path / "f"
        local.write_bytes(content.make(40 << 20))
        assert run("put", local, f"{home}/quiet").stderr == ""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [str(paths.LEVADA), "put", str(local), f"{home}/shown"],
            env={**os.environ, "LEVADA_URL": store.fs, "TERM": "xterm"},
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        assert process.wait(30) == 0
        os.close(ours)
        assert b"/s" in shown, shown[:500]  # a rate

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion(self, run, shell):
        script = run("completion", shell).stdout
        for word in ("setrep", "checksum", "--recursive" if shell != "fish" else "recursive"):
            assert word in script

    def test_completion_in_bash(self, tmp_path):
        """The script is one that bash takes, and it completes a command."""
        script = tmp_path / "levada.bash"
        script.write_text(levada("hdfs://x", "completion", "bash").stdout)
        ask = (
            f"source {script}; COMP_WORDS=(levada che); COMP_CWORD=1; _levada levada che levada; echo ${{COMPREPLY[@]}}"
        )
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
        assert done.stdout.split() == ["checksum"], done

    def test_a_name_gives_the_terminal_no_orders(self, store, root, home):
        root.write(f"{home}/a\x1b[2Jb", b"")
        ours, theirs = pty.openpty()
        command = [str(paths.LEVADA), "ls", "-C", home]
        subprocess.run(command, env={**os.environ, "LEVADA_URL": store.fs}, stdout=theirs, check=True)
        assert os.read(ours, 4096).decode().strip() == f"{home}/a?[2Jb"
        assert levada(store.fs, "ls", "-C", home).stdout == f"{home}/a\x1b[2Jb\n"
        os.close(ours)
        os.close(theirs)

    def test_completion_script_is_read_in_part(self):
        """`levada completion bash | head` is no reason to panic."""
        process = subprocess.Popen(
            [str(paths.LEVADA), "completion", "bash"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.close()
        assert process.wait(10) == 0 and process.stderr.read() == b""

    def test_version_and_help(self, run):
        assert run("--version").stdout.startswith("levada ")
        for command in ("ls", "put", "up", "checksum"):
            assert "Usage:" in run(command, "--help").stdout
