"""`hdfs haadmin`, `hdfs mover` and those parts of `hdfs dfsadmin` that the script of commands/ has not: each does its
work, or says in a line what there is instead."""

import json
import re
import sys
import threading

import pytest

from cli import levada
from java import run_tool
from paths import ROOT
from rawrpc import Connection, fields, message
from store import SUPERUSER, Store, address, eventually

sys.path.insert(0, str(ROOT / "tests" / "interop" / "commands"))
from commands import Shell  # noqa: E402

pytestmark = pytest.mark.levada
HAADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("administer") / "levada", "--meta", "3")
    store.members = store.fs.removeprefix("hdfs://").split(",")
    yield store
    store.stop()


@pytest.fixture(scope="module")
def settings(up) -> list[str]:
    """What an administrator of HDFS writes into hdfs-site.xml for such a group."""
    names = [f"m{number}" for number in range(len(up.members))]
    rows = {
        "dfs.nameservices": "store",
        "dfs.internal.nameservices": "store",
        "dfs.ha.namenodes.store": ",".join(names),
    }
    rows |= {f"dfs.namenode.rpc-address.store.{name}": addr for name, addr in zip(names, up.members)}
    rows["dfs.ha.fencing.methods"] = "shell(true)"  # without one, a failover is not even tried
    rows["dfs.client.failover.proxy.provider.store"] = (
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    )
    return [word for key, value in rows.items() for word in ("-D", f"{key}={value}")]


@pytest.fixture(scope="module")
def shell():
    shell = Shell("hdfs://store")
    yield shell
    shell.stop()


@pytest.fixture
def run(shell, settings):
    def run(tool: str, *words: str, user=SUPERUSER) -> tuple[int, str]:
        code, out, err = shell.run(user, tool, "", [*settings, *words])
        assert not re.search(r"(?m)^\s*at [\w.$]+\(", out), out
        return code, out + err

    return run


def leader(up) -> tuple[str, list[str]]:
    """Name of the one that leads, and of the others."""

    def ask():
        """On a busy machine another one may come to lead between two questions, so that two say it, or none."""
        asked = {}
        for number, addr in enumerate(up.members):
            with Connection(address(addr), SUPERUSER) as connection:
                asked[f"m{number}"] = fields(connection.call(1, "getHAServiceState").body)[1][0]
        return asked if list(asked.values()).count(1) == 1 else None

    asked = eventually(ask, 30, "one leads")
    (name,) = [name for name, state in asked.items() if state == 1]
    return name, [other for other in asked if other != name]


@pytest.fixture
def node(up) -> str:
    """Address of a datanode's RPC port."""

    def ask():
        for addr in up.members:
            with Connection(address(addr), SUPERUSER) as connection:
                if (answer := connection.call(1, "getDatanodeReport", message((1, 2)))).body:
                    ident = fields(fields(fields(answer.body)[1][0])[1][0])
                    return f"{ident[1][0].decode()}:{ident[6][0]}"

    return eventually(ask, 30, "nobody leads")


def test_haadmin_tells_who_leads(run, up):
    def agrees() -> bool:
        """On a busy machine another one may come to lead between two questions."""
        active, others = leader(up)
        told = [run(HAADMIN, "-getServiceState", name) for name in (active, *others)]
        code, said = run(HAADMIN, "-getAllServiceState")
        assert code == 0, said
        rows = [line.split() for line in said.splitlines()]
        assert [addr.split(":")[1] for addr, _ in rows] == [addr.split(":")[1] for addr in up.members]
        states = sorted(state for _, state in rows)
        return told == [(0, "active\n"), *[(0, "standby\n")] * 2] and states == ["active", "standby", "standby"]

    eventually(agrees, 60, "the tool says what the servers say")
    for name in ["m0", "m1", "m2"]:
        assert run(HAADMIN, "-checkHealth", name) == (0, "")


def test_dfsadmin_tells_of_maintenance(run, up):
    node = json.loads(levada(up.fs, "admin", "datanode", "list", "--json").stdout.splitlines()[0])["id"]
    levada(up.fs, "admin", "datanode", "maintenance", node, "--for", "1h")

    def report(kind: str) -> str:
        code, said = run("org.apache.hadoop.hdfs.tools.DFSAdmin", "-report", kind)
        assert code == 0, said
        return said

    eventually(lambda: "Decommission Status : In maintenance" in report("-inmaintenance"), 20, "it is in maintenance")
    assert run("org.apache.hadoop.hdfs.tools.DFSAdmin", "-refreshNodes")[0] == 0
    levada(up.fs, "admin", "datanode", "maintenance", node, "--end")
    assert "Decommission Status" not in report("-inmaintenance")


def test_haadmin_makes_nobody_lead(run, up):
    active, others = leader(up)
    for words in [("-transitionToStandby", active), ("-failover", active, others[0])]:
        code, said = run(HAADMIN, *words)
        assert code != 0 and "choose among themselves who leads" in said, said
    code, said = run(HAADMIN, "-transitionToActive", others[0])
    assert code != 0 and "already active" in said, said
    code, said = run(HAADMIN, "-transitionToStandby", active, user="alice")
    assert code != 0 and "Superuser privilege is required" in said, said


@pytest.mark.parametrize(
    "words, said",
    [
        ("-rollEdits", "rolling the log of changes is not supported"),
        ("-refreshCallQueue", "calls wait in no queue"),
        ("-rollingUpgrade prepare", "is not supported"),
        ("-shutdownDatanode NODE", "SIGTERM"),
        ("-evictWriters NODE", "levada admin datanode drain"),
        ("-deleteBlockPool NODE BP-1", "levada admin datanode drain"),
        ("-refreshNamenodes NODE", "hears by itself"),
        ("-triggerBlockReport NODE", "tells each second"),
        ("-getBalancerBandwidth NODE", "levada admin balance"),
        ("-reconfig datanode NODE start", "settings are read when a datanode starts"),
    ],
)
def test_dfsadmin_says_what_there_is_instead(run, node, words, said):
    code, heard = run("dfsadmin", *words.replace("NODE", node).split())
    assert code != 0 and said in heard, heard


def test_dfsadmin_lists_the_volumes_of_a_datanode(run, up, node):
    code, said = run("dfsadmin", "-getVolumeReport", node)
    assert code == 0 and "Active Volumes : 1" in said and str(up.directory) in said, said
    code, said = run("dfsadmin", "-reconfig", "datanode", node, "properties")
    assert code == 0, said


@pytest.mark.parametrize(
    "words",
    [
        "-refreshSuperUserGroupsConfiguration", "-refreshUserToGroupsMappings", "-refreshNodes", "-finalizeUpgrade",
        "-safemode get", "-safemode wait", "-safemode leave",
    ],
)  # fmt: skip
def test_dfsadmin_asks_every_server_of_the_group(run, up, words):
    code, said = run("dfsadmin", *words.split())
    assert code == 0, said
    for addr in up.members:
        assert addr.split(":")[1] in said, said


def test_safe_mode_is_that_of_the_whole_group(run, up):
    """Whoever is asked: nothing changes until it is left."""

    def told(*words, user=SUPERUSER) -> set[str]:
        code, said = run("dfsadmin", "-safemode", *words, user=user)
        assert code == 0, said
        lines = said.splitlines()
        assert len(lines) == 3 and all(addr.split(":")[1] in said for addr in up.members), said
        return {line.split(" in ")[0] for line in lines}

    code, said = run("dfsadmin", "-safemode", "enter", user="alice")
    assert code != 0 and "Superuser privilege is required" in said, said
    assert told("enter") == {"Safe mode is ON"} and told("get", user="alice") == {"Safe mode is ON"}
    code, said = run("dfs", "-mkdir", "/frozen")
    assert code == 1 and said.startswith("mkdir: Cannot create directory /frozen. Name node is in safe mode."), said
    lines = [json.loads(line) for line in levada(up.fs, "admin", "safemode", "get", "--json").stdout.splitlines()]
    assert lines == [{"safe_mode": True}]
    refused = levada(up.fs, "mkdir", "/frozen", check=False)
    assert refused.returncode != 0 and "levada admin safemode" in refused.stderr, refused
    code, said = run("dfsadmin", "-report", "-live")
    assert code == 0 and said.startswith("Safe mode is ON\n"), said
    waiting = threading.Thread(target=lambda: levada(up.fs, "admin", "safemode", "wait"))
    waiting.start()
    assert waiting.is_alive()
    assert levada(up.fs, "admin", "safemode", "leave").stdout == "safe mode is off\n"
    assert told("get") == {"Safe mode is OFF"}
    waiting.join(30)
    assert not waiting.is_alive()
    assert run("dfs", "-mkdir", "/thawed") == (0, "")


def test_a_drain_is_shown_as_decommissioning(run, up):
    """There is nobody to take over what the node has, so the drain goes on until it is stopped."""
    assert run("dfs", "-mkdir", "-p", "/drained") == (0, "")
    assert levada(up.fs, "put", __file__, "/drained/file").returncode == 0
    name = json.loads(levada(up.fs, "admin", "datanode", "list", "--json").stdout.splitlines()[0])["addr"]
    # A node says with its next heartbeat how many it has.
    eventually(lambda: "Num of Blocks: 0" not in run("dfsadmin", "-report")[1], 30, "all nodes report their blocks")
    levada(up.fs, "admin", "datanode", "drain", name)
    try:
        code, said = run("dfsadmin", "-report", "-decommissioning")
        assert code == 0 and "Decommissioning datanodes (1):" in said and f"Name: {name} " in said, said
        assert "Decommission Status : Decommission in progress" in said, said
        counted = re.findall(r"Num of Blocks: (\d+)", said)
        assert len(counted) == 1 and int(counted[0]) > 0, said
    finally:
        levada(up.fs, "admin", "datanode", "resume", name)
    code, said = run("dfsadmin", "-report", "-decommissioning")
    assert code == 0 and "Decommissioning datanodes (0):" in said, said


def test_the_mover_is_told_who_moves(up, settings):
    mover = "org.apache.hadoop.hdfs.server.mover.Mover"
    done = run_tool(mover, *settings, "-D", "fs.defaultFS=hdfs://store", "-p", "/", user=SUPERUSER)
    assert done.returncode != 0 and "levada admin balance" in done.stdout + done.stderr, done.stdout + done.stderr
