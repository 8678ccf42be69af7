"""A store in a container or behind NAT: clients beside it and clients outside, at the same time, each as it comes.

Its ports are others outside, and so is its name; nobody inside knows that name, and nobody outside has a way to its
addresses (networks.py). No client has a setting for it.
"""

import contextlib
import json
import os
import signal

import pytest

import content
from cli import levada_in
from java import Java, java_command
from networks import NAME, Nat, Network
from others import Go, Native
from paths import BLOCK
from store import SUPERUSER, Store, address

pytestmark = [pytest.mark.levada, pytest.mark.skipif(os.geteuid() != 0, reason="it makes network namespaces")]

SHIFT = 10_000
# As `levada up` has them for one metadata server and three datanodes.
PORTS = [8020, 9870, *(first + 10 * number for number in range(3) for first in (9866, 9867, 9868))]
LENGTH = 2 * BLOCK + 12_345


class Client:
    """Each client on one machine, at one URL."""

    def __init__(self, machine, url, stack):
        self.machine, self.url = machine, url
        self.java = stack.enter_context(Java(command=[*machine.inside, *java_command("Driver")]))
        self.fs = self.java.mount(url, SUPERUSER)
        self.native, self.go = Native(url, SUPERUSER, before=machine.inside), Go(url, SUPERUSER, before=machine.inside)
        stack.callback(self.native.stop)
        stack.callback(self.go.stop)

    def write(self, who, path, local):
        match who:
            case "levada":
                levada_in(self.machine, self.url, "put", "--block-size", BLOCK, local, path)
            case "java":
                self.fs.put(local, path, block=BLOCK)
            case "native":
                self.native.call("put", local=str(local), path=path, block=BLOCK)
            case "go":
                self.go.call("put", local=str(local), path=path, block=BLOCK, replication=3)

    def read(self, who, path, local) -> bytes:
        match who:
            case "levada":
                levada_in(self.machine, self.url, "get", "-f", path, local)
            case "java":
                self.fs.get(path, local)
            case "native":
                self.native.call("get", path=path, local=str(local))
            case "go":
                self.go.call("get", path=path, local=str(local))
        return local.read_bytes()


CLIENTS = ["levada", "java", "native", "go"]


@pytest.mark.parametrize("hides_callers", [False, True], ids=["routed", "proxied"])
@pytest.mark.parametrize("options", [(), ("--processes", "--secure")], ids=["one", "secure"])
def test_both_sides_of_a_gateway(tmp_path, hides_callers, options):
    if options and hides_callers:
        pytest.skip("the way in is the same")
    with contextlib.ExitStack() as stack:
        nat = stack.enter_context(Nat({port + SHIFT: port for port in PORTS}, hides_callers))
        where = ("--host", "0.0.0.0", "--advertise", f"{NAME}:{8020 + SHIFT}")
        store = Store(tmp_path / "levada", *where, *options, before=nat.store.inside, port_base=None)
        stack.callback(store.stop)
        assert store.fs == f"hdfs://{NAME}:{8020 + SHIFT}"
        assert store.transfer[0] == (nat.address(2), 9866)
        inside = Client(nat.inside, f"hdfs://{nat.address(2)}:8020", stack)
        outside = Client(nat.outside, store.fs, stack)
        beside = Client(nat.store, "hdfs://127.0.0.1:8020", stack)
        sides = {"inside": inside, "outside": outside, "beside": beside}
        written = {}
        # Go's knows no store that encrypts.
        able = [who for who in CLIENTS if not (options and who == "go")]
        for number, (side, who) in enumerate((side, who) for side in sides for who in able):
            path, local = f"/{side}-{who}", tmp_path / "source"
            written[path] = content.make(LENGTH, number)
            local.write_bytes(written[path])
            sides[side].write(who, path, local)
        # A small file, which `levada` writes in one request, and a file that grows under its reader.
        local.write_bytes(b"small")
        outside.write("levada", "/small", local)
        assert inside.read("levada", "/small", tmp_path / "read") == b"small"
        out = outside.fs.create("/open")
        out.write(content.make(100_000))
        out.hflush()
        for side in (inside, outside):
            reader = side.fs.open("/open")
            assert reader.visible() == 100_000
            reader.close()
        out.close()
        for side, client in sides.items():
            for number, path in enumerate(written):
                who = able[(number + len(side)) % len(able)]
                assert client.read(who, path, tmp_path / "read") == written[path], (side, who, path)
        # Each block has all three copies: chains of clients outside were joined inside.
        under = levada_in(nat.store, beside.url, "admin", "under-replicated", "--json").stdout
        assert under == "", under


def test_a_chain_that_loses_a_node_outside(tmp_path):
    """The writer is outside, and gets another datanode, to which the first ones copy what they have."""
    with contextlib.ExitStack() as stack:
        ports = [*PORTS, *(port + 10 for port in PORTS[-3:])]
        nat = stack.enter_context(Nat({port + SHIFT: port for port in ports}))
        options = ("--host", "0.0.0.0", "--advertise", f"{NAME}:{8020 + SHIFT}", "--processes", "--datanodes", "4")
        store = Store(tmp_path / "levada", *options, before=nat.store.inside, port_base=None)
        stack.callback(store.stop)
        java = stack.enter_context(Java(command=[*nat.outside.inside, *java_command("Driver")]))
        always = {"dfs.client.block.write.replace-datanode-on-failure.policy": "ALWAYS"}
        fs = java.mount(store.fs, SUPERUSER, always)
        data = content.make(600_000)
        out = fs.create("/f")
        out.write(data[:300_000])
        out.hflush()
        (block,) = map(json.loads, levada_in(nat.outside, store.fs, "explain", "--json", "/f").stdout.splitlines())
        held = store.transfer.index(address(block["replicas"][0]["datanode"]))
        os.kill(store.pids["data"][held], signal.SIGKILL)
        out.write(data[300_000:])
        out.close()
        assert fs.read("/f") == data


def test_all_addresses_are_for_other_machines(tmp_path):
    """`--host 0.0.0.0` alone: machines of the same network, no name, no gateway."""
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Network("172.31.0"))
        machine, other = net.machine(2), net.machine(3)
        store = Store(tmp_path / "levada", "--host", "0.0.0.0", "--meta", "3", before=machine.inside, port_base=None)
        stack.callback(store.stop)
        assert store.fs == ",".join(f"hdfs://{net.address(2)}:{port}" for port in (8020, 8021, 8022)).replace(
            ",hdfs://", ","
        )
        source = tmp_path / "source"
        source.write_bytes(content.make(LENGTH))
        levada_in(other, store.fs, "put", source, "/f")
        levada_in(machine, "hdfs://127.0.0.1:8020,127.0.0.1:8021,127.0.0.1:8022", "get", "/f", tmp_path / "read")
        assert (tmp_path / "read").read_bytes() == source.read_bytes()
