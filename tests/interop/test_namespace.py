"""What HDFS promises about names, told through the Java API: rename's falses, overwriting, deletion, listings,
permissions, times."""

import time

import pytest

import content
from java import JavaError, hdfs_dfs
from store import SUPERUSER


def refused(kind, what, *arguments, **named):
    """The call fails by exactly this Java exception; gives it."""
    with pytest.raises(JavaError) as caught:
        what(*arguments, **named)
    assert caught.value.kind == kind, caught.value
    return caught.value


class TestRename:
    def test_moves_a_file_and_a_tree(self, root, home):
        root.write(f"{home}/a/b/f", b"one")
        assert root.rename(f"{home}/a", f"{home}/c") is True
        assert root.read(f"{home}/c/b/f") == b"one"
        assert not root.exists(f"{home}/a")

    def test_into_an_existing_directory(self, root, home):
        root.write(f"{home}/f", b"one")
        root.mkdirs(f"{home}/d")
        assert root.rename(f"{home}/f", f"{home}/d") is True
        assert root.read(f"{home}/d/f") == b"one"

    def test_says_false(self, root, home):
        root.write(f"{home}/f", b"one")
        root.write(f"{home}/g", b"two")
        root.mkdirs(f"{home}/d/e")
        root.write(f"{home}/d/f", b"three")
        assert root.rename(f"{home}/missing", f"{home}/x") is False
        assert root.rename(f"{home}/f", f"{home}/g") is False  # an existing file is not replaced
        assert root.rename(f"{home}/f", f"{home}/d") is False  # d/f exists
        assert root.rename(f"{home}/f", f"{home}/nowhere/f") is False
        assert root.rename(f"{home}/d", f"{home}/d/e/inside") is False
        assert root.rename(f"{home}/d", f"{home}/f") is False
        assert root.rename("/", f"{home}/x") is False
        assert root.rename(f"{home}/f", f"{home}/f") is True  # a file onto itself
        assert root.rename(f"{home}/d", f"{home}/d") is False  # a directory would go into itself
        assert root.read(f"{home}/f") == b"one"
        assert root.read(f"{home}/g") == b"two"

    def test_second_form_replaces_when_asked(self, root, home):
        root.write(f"{home}/f", b"one")
        root.write(f"{home}/g", b"two")
        refused("FileAlreadyExistsException", root.rename2, f"{home}/f", f"{home}/g")
        root.rename2(f"{home}/f", f"{home}/g", overwrite=True)
        assert root.read(f"{home}/g") == b"one"
        refused("FileNotFoundException", root.rename2, f"{home}/f", f"{home}/h")
        refused("FileNotFoundException", root.rename2, f"{home}/g", f"{home}/nowhere/g")

    def test_second_form_does_not_replace_a_full_directory(self, root, home):
        root.mkdirs(f"{home}/a")
        root.write(f"{home}/b/f", b"one")
        refused("IOException", root.rename2, f"{home}/a", f"{home}/b", overwrite=True)
        root.delete(f"{home}/b/f")
        root.rename2(f"{home}/a", f"{home}/b", overwrite=True)
        assert root.names(home) == ["b"]


class TestCreate:
    def test_existing_file_without_overwrite(self, root, home):
        root.write(f"{home}/f", b"one")
        refused("FileAlreadyExistsException", root.create, f"{home}/f")
        assert root.read(f"{home}/f") == b"one"

    def test_overwrite(self, root, home):
        root.write(f"{home}/f", b"one")
        root.write(f"{home}/f", b"second", overwrite=True)
        assert root.read(f"{home}/f") == b"second"

    def test_over_a_directory(self, root, home):
        root.mkdirs(f"{home}/d")
        refused("FileAlreadyExistsException", root.create, f"{home}/d", overwrite=True)

    def test_makes_parents_unless_told(self, root, home):
        root.write(f"{home}/a/b/c/f", b"one")
        refused("FileNotFoundException", root.create, f"{home}/x/f", parents_must_exist=True)

    def test_below_a_file(self, root, home):
        root.write(f"{home}/f", b"one")
        refused("ParentNotDirectoryException", root.create, f"{home}/f/g")

    def test_block_size_and_replication_are_kept(self, root, home):
        root.write(f"{home}/f", b"one", block=2 << 20, replication=2)
        status = root.stat(f"{home}/f")
        assert (status["block"], status["replication"], status["length"]) == (2 << 20, 2, 3)

    def test_one_writer_at_a_time(self, users, home):
        """A second client can neither append to nor create a file that the first one has open."""
        first, second = users("alice"), users("alice")
        out = first.create(f"{home}/f")
        out.write(b"mine")
        out.hflush()
        refused("AlreadyBeingCreatedException", second.append, f"{home}/f")
        refused("AlreadyBeingCreatedException", second.create, f"{home}/f")
        out.close()
        assert second.read(f"{home}/f") == b"mine"

    def test_overwrite_takes_the_file_from_an_open_writer(self, users, home):
        first, second = users("alice"), users("alice")
        out = first.create(f"{home}/f")
        out.write(content.make(5000))
        out.hflush()
        second.write(f"{home}/f", b"new", overwrite=True)
        with pytest.raises(JavaError):
            out.close()
        assert second.read(f"{home}/f") == b"new"


class TestDirectories:
    def test_mkdirs(self, root, home):
        assert root.mkdirs(f"{home}/a/b/c") is True
        assert root.mkdirs(f"{home}/a/b/c") is True
        assert root.stat(f"{home}/a/b")["directory"]

    def test_mkdirs_over_a_file(self, root, home):
        root.write(f"{home}/f", b"one")
        refused("FileAlreadyExistsException", root.mkdirs, f"{home}/f")
        refused("ParentNotDirectoryException", root.mkdirs, f"{home}/f/d")

    def test_mkdir_without_parents(self, root, home):
        refused("FileNotFoundException", root.call, "mkdir", path=f"{home}/a/b")
        root.call("mkdir", path=f"{home}/a")
        root.call("mkdir", path=f"{home}/a")
        assert root.names(home) == ["a"]

    def test_delete(self, root, home):
        root.write(f"{home}/d/f", b"one")
        refused("PathIsNotEmptyDirectoryException", root.delete, f"{home}/d", recursive=False)
        assert root.delete(f"{home}/missing") is False
        assert root.delete(f"{home}/d/f", recursive=False) is True
        assert root.delete(f"{home}/d", recursive=False) is True
        assert root.names(home) == []

    def test_root_cannot_be_deleted(self, root):
        assert root.delete("/") is False

    def test_missing(self, root, home):
        refused("FileNotFoundException", root.stat, f"{home}/missing")
        refused("FileNotFoundException", root.list, f"{home}/missing")
        refused("FileNotFoundException", root.open, f"{home}/missing")
        refused("FileNotFoundException", root.open, home)
        refused("FileNotFoundException", root.append, f"{home}/missing")
        refused("FileNotFoundException", root.call, "summary", path=f"{home}/missing")
        with pytest.raises(JavaError):
            root.call("truncate", path=f"{home}/missing", length=0)
        assert not root.exists(f"{home}/missing")

    def test_list_of_a_file_is_the_file(self, root, home):
        root.write(f"{home}/f", b"one")
        assert [e["path"] for e in root.list(f"{home}/f")] == [f"{home}/f"]

    def test_long_listings_come_in_pages(self, root, home):
        """More entries than one answer holds (1000): each once, in the order of their bytes."""
        names = [f"n{i:05d}" for i in range(2345)] + ["Z", "a", "é", "中", "~"]
        pending = [root.start("mkdirs", path=f"{home}/{name}") for name in names]
        for one in pending:
            one.get()
        located = [entry["path"].rsplit("/", 1)[1] for entry in root.call("list-located", path=home)]
        for found in (root.names(home), located):
            assert sorted(found) == sorted(names)
            # Hadoop compares bytes as signed numbers, so only ASCII has one order everywhere.
            plain = [name for name in found if name.isascii()]
            assert plain == sorted(plain)

    @pytest.mark.parametrize("located", [False, True])
    def test_several_paths_at_once(self, store, java, root, home, located):
        """Pages of all of them, in the order of the paths; what cannot be listed says so for itself, and the others are
        listed."""
        names = [f"n{i:05d}" for i in range(1234)]
        for one in [root.start("mkdirs", path=f"{home}/long/{name}") for name in names]:
            one.get()
        root.write(f"{home}/d/f", content.make(3000), replication=1)
        root.mkdirs(f"{home}/empty")
        root.mkdirs(f"{home}/closed", mode="700")
        paths = ["d", "missing", "long", "d/f", "closed", "empty", "long", "d/f/below"]
        bob = java.mount(store.fs, "bob")
        pages = bob.call("list-batched", paths=[f"{home}/{path}" for path in paths], located=located)
        bob.unmount()
        errors = {page["path"]: page["error"].rsplit(".", 1)[-1] for page in pages if "error" in page}
        assert errors == {
            f"{home}/missing": "FileNotFoundException",
            f"{home}/closed": "AccessControlException",
            f"{home}/d/f/below": "AccessControlException",
        }
        found = [[page["path"], entry["path"]] for page in pages for entry in page["entries"]]
        each = [
            [f"{home}/{path}", f"{home}/{path}/{name}"]
            for path, below in (("d", ["f"]), ("long", names))
            for name in below
        ]
        assert found == each + [[f"{home}/d/f"] * 2] + each[1:]
        files = [entry for page in pages for entry in page["entries"] if entry["path"].endswith("/f")]
        assert [entry["length"] for entry in files] == [3000, 3000]
        assert all(len(entry["blocks"]) == 1 for entry in files if located)

    def test_deleting_while_listing(self, root, home):
        """A page may end on a name that is gone when the next page is asked for."""
        names = [f"n{i:04d}" for i in range(1500)]
        for one in [root.start("mkdirs", path=f"{home}/{name}") for name in names]:
            one.get()
        listing = root.start("list-located", path=home)
        for one in [root.start("delete", path=f"{home}/{name}", recursive=True) for name in names[900:1100]]:
            one.get()
        found = {entry["path"].rsplit("/", 1)[1] for entry in listing.get()}
        assert found >= set(names[:900]) | set(names[1100:])

    def test_names_of_all_kinds(self, root, native, home):
        names = ["with space", "plus+and%41", "ümlaut", "日本語", "emoji🐧", "a=b;c,d", "quote'\"", "tab\there", "x" * 255]
        for name in names:
            root.write(f"{home}/{name}", name.encode())
        assert sorted(root.names(home)) == sorted(names)
        assert sorted(native.call("list", path=home)) == sorted(names)
        for name in names:
            assert root.read(f"{home}/{name}") == name.encode()

    def test_names_too_long(self, root, home):
        refused("FSLimitException$PathComponentTooLongException", root.mkdirs, f"{home}/{'x' * 256}")

    def test_glob(self, root, home):
        for name in ("a1", "a2", "b1", "c/a3"):
            root.write(f"{home}/{name}", b"")
        assert root.call("glob", path=f"{home}/a*") == [f"{home}/a1", f"{home}/a2"]
        assert root.call("glob", path=f"{home}/{{a1,b1}}") == [f"{home}/a1", f"{home}/b1"]
        assert root.call("glob", path=f"{home}/*/a[0-9]") == [f"{home}/c/a3"]

    def test_summary_of_a_tree(self, root, home):
        root.write(f"{home}/d/f", content.make(1500), replication=2)
        root.write(f"{home}/d/e/g", content.make(10), replication=1)
        root.mkdirs(f"{home}/d/empty")
        assert root.call("summary", path=f"{home}/d") == {
            "length": 1510,
            "files": 2,
            "directories": 3,
            "consumed": 3010,
        }
        assert root.call("summary", path=f"{home}/d/f") == {
            "length": 1500,
            "files": 1,
            "directories": 0,
            "consumed": 3000,
        }


class TestPermissions:
    def test_owner_group_and_mode_at_creation(self, root, users, home):
        alice = users("alice")
        alice.write(f"{home}/f", b"one")
        alice.mkdirs(f"{home}/d")
        status = alice.stat(f"{home}/f")
        assert (status["owner"], status["group"], status["mode"]) == ("alice", root.stat(home)["group"], "644")
        assert alice.stat(f"{home}/d")["mode"] == "755"

    def test_parents_made_on_the_way_are_as_theirs(self, users, home):
        users("alice").write(f"{home}/a/b/f", b"one")
        status = users("alice").stat(f"{home}/a/b")
        assert (status["mode"], status["owner"]) == ("777", "alice")

    def test_umask_is_the_clients(self, users, home):
        alice = users("alice", {"fs.permissions.umask-mode": "077"})
        alice.write(f"{home}/f", b"one", mode="666")
        alice.mkdirs(f"{home}/d", mode="777")
        assert (alice.stat(f"{home}/f")["mode"], alice.stat(f"{home}/d")["mode"]) == ("600", "700")

    def test_strangers_are_kept_out(self, users, home):
        alice, bob = users("alice"), users("bob")
        alice.mkdirs(f"{home}/d")
        alice.write(f"{home}/d/f", b"secret", mode="600")
        refused("AccessControlException", bob.read, f"{home}/d/f")
        refused("AccessControlException", bob.create, f"{home}/d/g")
        refused("AccessControlException", bob.delete, f"{home}/d/f")
        refused("AccessControlException", bob.rename, f"{home}/d/f", f"{home}/mine")
        refused("AccessControlException", bob.call, "set-permission", path=f"{home}/d/f", mode="666")
        refused("AccessControlException", bob.call, "set-times", path=f"{home}/d/f", modified=1, accessed=1)
        refused("AccessControlException", bob.call, "set-replication", path=f"{home}/d/f", replication=1)
        assert bob.stat(f"{home}/d/f")["length"] == 6  # the name itself may be seen
        alice.call("set-permission", path=f"{home}/d", mode="700")
        refused("AccessControlException", bob.stat, f"{home}/d/f")
        refused("AccessControlException", bob.list, f"{home}/d")
        assert alice.read(f"{home}/d/f") == b"secret"

    def test_superuser_may_everything(self, root, users, home):
        alice = users("alice")
        alice.write(f"{home}/f", b"secret")
        alice.call("set-permission", path=f"{home}/f", mode="0")
        assert root.read(f"{home}/f") == b"secret"

    def test_only_the_superuser_gives_files_away(self, root, users, home):
        alice = users("alice")
        alice.write(f"{home}/f", b"one")
        refused("AccessControlException", alice.call, "set-owner", path=f"{home}/f", owner="bob")
        refused("AccessControlException", alice.call, "set-owner", path=f"{home}/f", group="wheel")
        root.call("set-owner", path=f"{home}/f", owner="bob", group="staff")
        status = root.stat(f"{home}/f")
        assert (status["owner"], status["group"]) == ("bob", "staff")
        refused("AccessControlException", alice.call, "set-permission", path=f"{home}/f", mode="777")

    def test_sticky_directory(self, root, users, home):
        """As /tmp: everybody may write, only owners remove or rename."""
        alice, bob = users("alice"), users("bob")
        root.mkdirs(f"{home}/tmp")
        root.call("set-permission", path=f"{home}/tmp", mode="1777")
        assert root.stat(f"{home}/tmp")["mode"] == "1777"
        alice.write(f"{home}/tmp/f", b"one")
        refused("AccessControlException", bob.delete, f"{home}/tmp/f")
        refused("AccessControlException", bob.rename, f"{home}/tmp/f", f"{home}/tmp/g")
        assert alice.delete(f"{home}/tmp/f") is True

    def test_access(self, users, home):
        alice, bob = users("alice"), users("bob")
        alice.write(f"{home}/f", b"one")
        alice.call("access", path=f"{home}/f", mode="rw-")
        bob.call("access", path=f"{home}/f", mode="r--")
        refused("AccessControlException", bob.call, "access", path=f"{home}/f", mode="-w-")
        refused("FileNotFoundException", bob.call, "access", path=f"{home}/missing", mode="r--")

    def test_removing_a_tree_asks_for_its_directories(self, users, home):
        alice, bob = users("alice"), users("bob")
        bob.mkdirs(f"{home}/bob", mode="777")
        bob.call("set-permission", path=f"{home}/bob", mode="777")
        alice.mkdirs(f"{home}/bob/private")
        alice.write(f"{home}/bob/private/f", b"one")
        refused("AccessControlException", bob.delete, f"{home}/bob")
        assert alice.read(f"{home}/bob/private/f") == b"one"

    def test_shell_as_another_user(self, store, root, home):
        root.write(f"{home}/f", b"one")
        root.call("set-permission", path=f"{home}/f", mode="600")
        failed = hdfs_dfs(store.fs, "-cat", f"{home}/f", user="mallory", check=False)
        assert failed.returncode == 1
        assert "Permission denied: user=mallory, access=READ" in failed.stderr


class TestAttributes:
    def test_times(self, root, home):
        root.write(f"{home}/f", b"one")
        root.call("set-times", path=f"{home}/f", modified=1_000_000_000_000, accessed=1_100_000_000_000)
        status = root.stat(f"{home}/f")
        assert (status["modified"], status["accessed"]) == (1_000_000_000_000, 1_100_000_000_000)
        root.call("set-times", path=f"{home}/f", modified=-1, accessed=1_200_000_000_000)
        status = root.stat(f"{home}/f")
        assert (status["modified"], status["accessed"]) == (1_000_000_000_000, 1_200_000_000_000)

    def test_a_change_touches_the_parent(self, root, home):
        root.mkdirs(f"{home}/d")
        root.call("set-times", path=f"{home}/d", modified=1000, accessed=-1)
        before = time.time() * 1000 - 5000
        root.write(f"{home}/d/f", b"one")
        assert root.stat(f"{home}/d")["modified"] > before
        assert root.stat(f"{home}/d/f")["modified"] > before

    def test_replication(self, root, home):
        root.write(f"{home}/f", b"one")
        assert root.call("set-replication", path=f"{home}/f", replication=2) is True
        assert root.stat(f"{home}/f")["replication"] == 2
        assert root.call("set-replication", path=home, replication=2) is False

    def test_mode_and_owner_through_the_shell(self, store, root, home):
        root.write(f"{home}/d/f", b"one")
        hdfs_dfs(store.fs, "-chmod", "-R", "u=rwx,g=rx,o-rwx", f"{home}/d")
        hdfs_dfs(store.fs, "-chown", "-R", "bob:staff", f"{home}/d")
        for path in (f"{home}/d", f"{home}/d/f"):
            status = root.stat(path)
            assert (status["mode"], status["owner"], status["group"]) == ("750", "bob", "staff")

    def test_df_counts_something(self, root):
        df = root.call("df")
        assert df["capacity"] > df["used"] >= 0
        assert df["remaining"] > 0

    def test_block_locations(self, root, home):
        """Three blocks, each with as many locations as the replication says, and a rack."""
        root.write(f"{home}/f", content.make(2_500_000), replication=2)
        blocks = root.call("blocks", path=f"{home}/f")
        assert [(b["offset"], b["length"]) for b in blocks] == [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, 402_848)]
        for block in blocks:
            assert len(block["names"]) == 2
            assert all(rack.startswith("/default-rack/") for rack in block["racks"])

    def test_root_is_the_superusers(self, root):
        status = root.stat("/")
        assert status["directory"] and status["owner"] == SUPERUSER
