"""A store that is reached through a gateway alone."""

import json
import subprocess

import pytest

from levada import LevadaFileSystem
from levada.testing import command


@pytest.fixture
def gateway(levada_store):
    program = [command(), "gateway", "--url", levada_store.url, "--listen", "127.0.0.1:0", "--beside-servers", "--json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        yield process, json.loads(process.stdout.readline())["gateway"]
        process.terminate()


@pytest.mark.parametrize("way", ["option", "environment"])
def test_all_goes_through_it(levada_store, levada_fs, home, gateway, way, monkeypatch):
    process, address = gateway
    if way == "environment":
        monkeypatch.setenv("LEVADA_GATEWAY", address)
    named = {"gateway": address} if way == "option" else {}
    there = {"host": levada_store.host, "port": levada_store.port, "skip_instance_cache": True}
    far = LevadaFileSystem(**there, **named)
    data = bytes(range(256)) * 1000
    far.pipe_file(f"{home}/a", data)
    assert far.cat_ranges([f"{home}/a"] * 2, [0, 1000], [10, 1010]) == [data[:10], data[1000:1010]]
    assert levada_fs.cat_file(f"{home}/a") == data
    process.terminate()
    process.wait()
    with pytest.raises(OSError):
        LevadaFileSystem(**there, **named).cat_file(f"{home}/a")
