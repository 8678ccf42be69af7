"""HBase's own writer of write-ahead logs, unmodified: it sends every packet to all datanodes itself, each of which is a
chain of one."""

import base64
import json
import os
import subprocess

import pytest

import content
import paths
from cli import levada
from replicas import LOST_AFTER_S, healed, replicas, roles, transfer_address
from rawdata import Names
from store import SUPERUSER, eventually

pytestmark = [
    pytest.mark.levada,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not paths.HBASE_CLASSES.exists(), reason="tests/run.sh prepare installs HBase's writer"),
]

# From the limit on: a round of the leader, the copies, and a machine of two cores that does other things as well.
HEALED_S = 40


class FanOut:
    """The JVM of tests/interop/hbase/FanOut.java."""

    def __init__(self, url, timeout_ms=20_000):
        classpath = f"{paths.JAVA_CONF}:{paths.HBASE_CLASSES}:{paths.HBASE_LIB}/*:{paths.HADOOP_LIB}/*"
        options = [
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dhadoop.root.logger=ERROR,console",
            "-cp",
            classpath,
        ]
        self.process = subprocess.Popen(
            [
                "java", *options, "FanOut", url,
                f"dfs.client.socket-timeout={timeout_ms}", "hbase.lease.recovery.dfs.timeout=2000",
            ],  # fmt: skip
            env={**os.environ, "HADOOP_USER_NAME": SUPERUSER}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, *words) -> str:
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def call(self, *words) -> list[str]:
        answer = self.ask(*words)
        assert answer.split(" ")[0] == "ok", answer
        return answer.split(" ")[1:]

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def store(roles):
    return roles(datanodes=4)


@pytest.fixture
def writer(store):
    made = FanOut(store.fs)
    yield made
    made.kill()


@pytest.fixture
def hasty(store):
    """Takes a datanode that is silent for two seconds for lost."""
    made = FanOut(store.fs, timeout_ms=2000)
    yield made
    made.kill()


def record(number: int) -> bytes:
    return content.make(50 + number * 37 % 4000, number)


def coded(*records: bytes) -> list[str]:
    return [base64.b64encode(one).decode() for one in records]


def test_a_log_is_written_and_read_while_it_grows(store, writer):
    nodes = writer.call("create", "/wal/1")
    assert len(set(nodes)) == 3
    data = b""
    for first in range(0, 60, 6):
        records = [record(number) for number in range(first, first + 6)]
        data += b"".join(records)
        assert writer.call("append", *coded(*records)) == [str(len(data))]
        # Each node by itself, and a reader that opens the file now, have all that was acknowledged.
        assert levada(store.fs, "cat", "/wal/1", text=False).stdout == data
    data += record(99)
    assert writer.call("sync", *coded(record(99))) == [str(len(data))]
    writer.call("close")
    assert levada(store.fs, "cat", "/wal/1", text=False).stdout == data
    assert healed(store, {"/wal/1": data}), "all three are whole, and have the same"


def test_packets_longer_than_other_clients_send(store, writer):
    writer.call("create", "/wal/long")
    data = content.make(14 << 20, 3)
    assert writer.call("append", *coded(data)) == [str(len(data))]
    writer.call("close")
    assert healed(store, {"/wal/long": data})


def begin(writer, name: str, *records: bytes) -> tuple[str, list[str]]:
    """Path and nodes of a log that has these records. On a busy machine a node that lives may be silent for two
    seconds: then the hasty writer gives the log up, and begins the next."""
    tries = iter(range(100))

    def attempt():
        path = f"/wal/{name}-{next(tries)}"
        nodes = writer.call("create", path)
        answer = writer.ask("append", *coded(*records))
        if answer.startswith("error"):
            writer.call("recover")
            return None
        assert answer == f"ok {sum(map(len, records))}", answer
        return path, nodes

    return eventually(attempt, 20, "a log is begun")


@pytest.mark.parametrize("fault", ["kill", "stop"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_datanode_is_lost(store, hasty, fault, place):
    """The writer gives the file up at once, recovers it, and goes on with the next one; all that was acknowledged is
    there."""
    records = [record(number) for number in range(20)]
    first, nodes = begin(hasty, "first", *records)
    acknowledged = b"".join(records)
    lost = next(name for name in store.names if "%s:%d" % transfer_address(store, name) == nodes[place])
    store.kill(lost) if fault == "kill" else store.pause(lost)
    unsure = [record(number) for number in range(20, 30)]
    answer = hasty.ask("append", *coded(*unsure))
    assert answer.startswith("error"), answer
    assert int(hasty.call("recover")[0]) >= len(acknowledged)
    got = levada(store.fs, "cat", first, text=False).stdout
    assert got.startswith(acknowledged) and b"".join(records + unsure).startswith(got)
    # The next log avoids the node.
    second, others = begin(hasty, "second", *unsure)
    assert nodes[place] not in others
    hasty.call("close")
    files = {first: got, second: b"".join(unsure)}
    eventually(lambda: healed(store, files, without=[transfer_address(store, lost)]), LOST_AFTER_S + HEALED_S)
    store.start(lost) if fault == "kill" else store.go_on(lost)
    eventually(lambda: heard(store), 30, f"{lost} is back")
    for path, data in files.items():
        (of_block,) = replicas(store, path)
        assert of_block and all(
            got == data for _, got in of_block
        ), "what the lost node has of the broken log is nowhere named"
    # It may have come back before those who took its place were done: then it is named when it has copied what it
    # lacks.
    eventually(lambda: healed(store, files), HEALED_S)


def heard(store) -> bool:
    lines = [json.loads(line) for line in levada(store.fs, "admin", "datanode", "list", "--json").stdout.splitlines()]
    return all(line["silent_ms"] is not None and line["silent_ms"] < 2000 for line in lines)


def test_the_writer_is_killed(store, writer):
    """Another region server takes the log over: the lease is recovered, and the nodes agree, though no chain connected
    them."""
    writer.call("create", "/wal/1")
    records = [record(number) for number in range(40)]
    writer.call("append", *coded(*records))
    writer.kill()
    names = Names(store.fs, SUPERUSER, "other")
    recovered = lambda: names.call("recoverLease", (1, "/wal/1"), (2, "other"))[1] == [1]
    eventually(recovered, 60, "the lease is recovered", every=0.5)
    data = b"".join(records)
    assert levada(store.fs, "cat", "/wal/1", text=False).stdout == data
    assert healed(store, {"/wal/1": data})
