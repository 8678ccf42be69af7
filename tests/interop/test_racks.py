"""Racks, told by the script that HDFS's administrators have: copies spread, and everybody is served nearby."""

import itertools
import json

import pytest

import content
from cli import levada
from rawdata import Names
from roles import Roles
from store import SUPERUSER, eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(120)]

SCRIPT = """#!/bin/sh
echo "$1" >> "$0.asked"
case $1 in
  127.0.1.*) echo /left ;;
  127.0.2.* | 127.0.0.1) echo /right ;;
  *) exit 1 ;;
esac
"""


@pytest.fixture
def store(tmp_path):
    script = tmp_path / "topology.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    made = Roles(tmp_path / "store", datanodes=0, replication=2, topology_script=json.dumps(str(script)))
    for rows, host in [
        ("", "127.0.1.1"),
        ("", "127.0.1.2"),
        ("", "127.0.2.1"),
        ("", "127.0.2.2"),
        ('rack = "/own"', "127.0.3.1"),
        ("", "127.0.4.1"),
    ]:
        made.start(made.describe_datanode(rows, host))
    made.script = script
    yield made
    made.stop()


def test_a_script_tells_where_everybody_is(store):
    listed = [json.loads(line) for line in levada(store.fs, "admin", "datanode", "list", "--json").stdout.splitlines()]
    racks = {node["addr"].split(":")[0]: node["rack"] for node in listed}
    assert racks == {
        "127.0.1.1": "/left", "127.0.1.2": "/left", "127.0.2.1": "/right", "127.0.2.2": "/right",
        "127.0.3.1": "/own", "127.0.4.1": "/default-rack",
    }  # fmt: skip
    data = content.make(3_000_000)
    names = Names(store.fs, SUPERUSER)
    # Clients wait for the script for a quarter of a second only, which may be over before a busy machine has run it.
    numbers = itertools.count()

    def nearby() -> bool:
        names.create(path := f"/near{next(numbers)}", replication=2)
        return racks[names.add_block(path).addresses()[0][0]] == "/right"

    eventually(lambda: all(nearby() for _ in range(8)), 20, "it is known where this client is")
    for number in range(8):
        levada(store.fs, "put", "-", f"/f{number}", stdin=data, text=False)
        for located in names.blocks(f"/f{number}"):
            hosts = [host for host, _ in located.addresses()]
            assert len(hosts) == 2 and len({racks[host] for host in hosts}) == 2, "each block in two racks"
            assert racks[hosts[0]] == "/right", "this client's rack has one, and it comes first"
        assert levada(store.fs, "get", f"/f{number}", "-", text=False).stdout == data
    asked = store.script.with_name("topology.sh.asked").read_text().split()
    assert asked.count("127.0.0.1") == 1, "a client is asked about once"
    assert "127.0.3.1" not in asked, "what a datanode says itself stands"
