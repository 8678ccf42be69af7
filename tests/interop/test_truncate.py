"""Files made shorter by the Java client, and what others see of them."""

import random

import pytest

import content
from java import JavaError
from paths import BLOCK
from roles import Roles
from store import SUPERUSER, eventually


def closed(fs, path):
    eventually(lambda: fs.call("is-closed", path=path), 60, f"{path} is cut", every=0.1)


class TestTruncate:
    def test_at_the_border_of_a_block(self, root, home):
        """Done when the call is answered."""
        path, data = f"{home}/f", content.make(2 * BLOCK + 1000)
        root.write(path, data)
        for length in (len(data), 2 * BLOCK, BLOCK, 0, 0):
            assert root.call("truncate", path=path, length=length) is True
            assert root.call("is-closed", path=path) is True
            assert root.stat(path)["length"] == length
            assert root.read(path) == data[:length]

    @pytest.mark.parametrize("length", [1, 511, 512, 513, 70_000, BLOCK - 1, BLOCK + 1, 2 * BLOCK + 999])
    def test_inside_a_block(self, root, users, native, home, tmp_path, length):
        """The block is cut on every datanode before the file is closed; then it can be appended to and cut again."""
        path, data = f"{home}/f", content.make(2 * BLOCK + 1000)
        root.write(path, data)
        assert root.call("truncate", path=path, length=length) is False
        closed(root, path)
        assert root.stat(path)["length"] == length
        assert root.read(path) == data[:length]
        assert root.checksum(path) == content.md5_of_md5_of_crc(data[:length])
        native.call("get", path=path, local=str(tmp_path / "got"))
        assert (tmp_path / "got").read_bytes() == data[:length]
        more = content.make(700, 7)
        out = users("root").append(path)
        out.write(more)
        out.close()
        assert root.read(path) == data[:length] + more
        assert root.call("truncate", path=path, length=length + 3) is False
        closed(root, path)
        assert root.read(path) == data[:length] + more[:3]

    def test_a_small_file(self, root, home):
        """One that shares a pack with others."""
        for name in "ab":
            root.write(f"{home}/{name}", content.make(1000))
        assert root.call("truncate", path=f"{home}/a", length=10) is False
        closed(root, f"{home}/a")
        assert root.read(f"{home}/a") == content.make(1000)[:10]
        assert root.read(f"{home}/b") == content.make(1000)

    def test_refusals(self, root, users, home):
        root.write(f"{home}/f", b"one")
        root.call("set-permission", path=f"{home}/f", mode="644")
        for path, length, kind in (
            (f"{home}/f", 4, "HadoopIllegalArgumentException"),
            (f"{home}/missing", 0, "FileNotFoundException"),
            (home, 0, "FileNotFoundException"),
        ):
            with pytest.raises(JavaError) as caught:
                root.call("truncate", path=path, length=length)
            assert caught.value.kind == kind, path
        with pytest.raises(JavaError) as caught:
            users("alice").call("truncate", path=f"{home}/f", length=0)
        assert caught.value.kind == "AccessControlException"
        out = users("root").append(f"{home}/f")
        with pytest.raises(JavaError) as caught:
            root.call("truncate", path=f"{home}/f", length=0)
        assert caught.value.kind == "AlreadyBeingCreatedException"
        out.close()
        assert root.read(f"{home}/f") == b"one"


@pytest.fixture
def roles(tmp_path):
    made = Roles(tmp_path / "roles", lease_soft_ms=2000, lease_hard_ms=6000)
    yield made
    made.stop()


@pytest.mark.levada
def test_killed_while_blocks_are_cut(roles, java):
    """`kill -9` of everything at any moment: afterwards each file has its old length or the wanted one, and ends
    closed."""
    rng = random.Random(4)
    fs = java.mount(roles.fs, SUPERUSER)
    names = ["meta", *roles.names]
    for round in range(3):
        files = {f"/{round}-{number}": content.make(60_000 + 300 * number, number) for number in range(6)}
        for path, data in files.items():
            fs.write(path, data)
        asked = [fs.start("truncate", path=path, length=30_000 + 7 * number) for number, path in enumerate(files)]
        eventually(lambda: asked[rng.randrange(6)].done.wait(0.001), 10, every=0)
        roles.kill(*(names if round < 2 else ["meta"]))
        for name in names:
            if roles.processes[name].poll() is not None:
                roles.start(name)
        # One that had not been sent when its connection broke comes to the new server: not between a read below and a
        # look at its answer.
        assert all(one.done.wait(120) for one in asked)
        for number, (path, data) in enumerate(files.items()):
            eventually(lambda: able(fs, path), 90, f"{path} is closed", every=0.2)
            have = fs.read(path)
            assert len(have) in (len(data), 30_000 + 7 * number), path
            assert have == data[: len(have)], path
            if "ok" in asked[number].answer:
                assert len(have) == 30_000 + 7 * number, f"{path}: the cut was acknowledged, and is gone"


def able(fs, path) -> bool:
    """The file is closed; what is not up yet answers later."""
    try:
        return fs.call("is-closed", path=path)
    except JavaError:
        return False


@pytest.mark.levada
def test_one_datanode_is_down(roles, java):
    """The others are cut; the one that returns with its long replica is not believed."""
    fs = java.mount(roles.fs, SUPERUSER)
    data = content.make(90_000)
    fs.write("/f", data)
    roles.kill("data1")
    assert fs.call("truncate", path="/f", length=50_000) is False
    closed(fs, "/f")
    assert fs.read("/f") == data[:50_000]
    roles.start("data1")
    assert fs.read("/f") == data[:50_000]
    # There is no fourth node to take the place of one whose replica is not brought up yet.
    two = java.mount(roles.fs, SUPERUSER, {"dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER"})
    out = two.append("/f")
    out.write(b"more")
    out.close()
    assert java.mount(roles.fs, SUPERUSER).read("/f") == data[:50_000] + b"more"
