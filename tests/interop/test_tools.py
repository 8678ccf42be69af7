"""Tools of administrators of HDFS, unmodified, beyond what test_commands.py compares: they do their work, or say in a
line why not."""

import re

import pytest

from java import run_tool
from rawrpc import ERROR, SUCCESS, Connection, delimited, fields, message
from store import SUPERUSER, Store, eventually
from others import Native

pytestmark = pytest.mark.levada

NAMENODE = "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol"
TOOLS = {
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "balancer": "org.apache.hadoop.hdfs.server.balancer.Balancer",
    "mover": "org.apache.hadoop.hdfs.server.mover.Mover",
    "getconf": "org.apache.hadoop.hdfs.tools.GetConf",
    "haadmin": "org.apache.hadoop.hdfs.tools.DFSHAAdmin",
}


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("tools") / "levada")
    yield store
    store.stop()


def tool(store, name: str, *words: str, user=SUPERUSER) -> tuple[int, str]:
    """Exit code and all that was printed. No tool may end in a stack trace."""
    done = run_tool(TOOLS[name], "-D", f"fs.defaultFS={store.fs}", *words, user=user)
    said = done.stdout + done.stderr
    assert not re.search(r"(?m)^\s*at [\w.$]+\(", done.stdout), said
    return done.returncode, said


def nodes(store) -> list[dict]:
    with Connection(store.rpc, SUPERUSER) as connection:
        answer = connection.call(1, "getDatanodeReport", message((1, 1)))
        return [fields(fields(info)[1][0]) for info in fields(answer.body)[1]]


def test_metasave_writes_a_report(up):
    code, said = tool(up, "dfsadmin", "-metasave", "now.txt")
    assert code == 0, said
    assert "Created metasave file now.txt" in said
    report = (up.directory / "meta" / "reports" / "now.txt").read_text()
    assert "Live Datanodes: 3\nDead Datanodes: 0\nMetasave: Blocks waiting for reconstruction: 0\n" in report
    assert "Metasave: Number of datanodes: 3\n" in report
    assert tool(up, "dfsadmin", "-metasave", "now.txt")[0] == 0, "over the one that is there"


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", ".hidden", "a" * 300])
def test_metasave_writes_nowhere_else(up, name):
    code, said = tool(up, "dfsadmin", "-metasave", name)
    assert code != 0 and "plain file name" in said, said


def test_metasave_is_for_the_superuser(up):
    code, said = tool(up, "dfsadmin", "-metasave", "mine", user="alice")
    assert code != 0 and "Superuser privilege is required" in said, said


def test_a_datanode_tells_of_itself(up):
    ident = nodes(up)[0]
    code, said = tool(up, "dfsadmin", "-getDatanodeInfo", f"{ident[1][0].decode()}:{ident[6][0]}")
    assert code == 0 and re.search(r"Uptime: \d+, Software version: [\d.]+", said), said


def test_the_balancer_is_told_who_balances(up):
    code, said = tool(up, "balancer")
    assert code != 0 and "levada admin balance" in said, said


def test_tools_that_ask_the_configuration(up):
    code, said = tool(up, "getconf", "-confKey", "fs.defaultFS")
    assert code == 0 and up.fs in said, said


def get_blocks(store, ident: bytes, size: int, least: int, user=SUPERUSER):
    with Connection(store.rpc, user) as connection:
        return connection.call(1, "getBlocks", message((1, ident), (2, size), (3, least)), protocol=NAMENODE)


def test_blocks_of_a_datanode(up, tmp_path):
    """Those of the length asked for, with all who have them, until there are enough."""
    native = Native(up.fs, SUPERUSER)
    for number, length in enumerate([10, 2000, 300_000, 400_000]):
        (tmp_path / "f").write_bytes(bytes(length))
        native.call("put", path=f"/blocks/{number}", local=str(tmp_path / "f"))
    native.stop()
    with Connection(up.rpc, SUPERUSER) as connection:
        ident = fields(fields(connection.call(1, "getDatanodeReport", message((1, 1))).body)[1][0])[1][0]

    def blocks(size, least):
        answer = get_blocks(up, ident, size, least)
        assert answer.status == SUCCESS, answer.text
        return [fields(block) for block in fields(fields(answer.body)[1][0]).get(1, [])]

    lengths = lambda found: sorted(fields(block[1][0])[3][0] for block in found)
    eventually(lambda: lengths(blocks(1 << 30, 1000)) == [2000, 300_000, 400_000], 20, "all but the small one")
    assert lengths(blocks(1 << 30, 0)) == [10, 2000, 300_000, 400_000]
    assert len(blocks(1, 0)) == 1
    for block in blocks(1 << 30, 0):
        assert len(block[2]) == len(block[3]) == len(block[4]) == 3
    strange = message((1, "127.0.0.1"), (2, "x"), (3, "nobody"), (4, 1), (5, 1), (6, 1))
    for answer, text in [
        (get_blocks(up, ident, 0, 0), "not positive size"),
        (get_blocks(up, strange, 1, 0), "not found"),
        (get_blocks(up, ident, 1, 0, "alice"), "Superuser privilege"),
    ]:
        assert answer.status == ERROR and text in answer.text, answer.text
