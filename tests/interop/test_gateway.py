"""A client in another network, from which one address can be reached: that of `levada gateway`."""

import json
import os
import subprocess

import content
import paths
import pytest
from cli import levada
from store import Store, die_with_parent

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

NEAR, FAR = "10.213.77.1", "10.213.77.2"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def far():
    """The name of a network of its own, with a cable to this machine's."""
    name = f"levada-far-{os.getpid()}"
    cable = f"lvd{os.getpid()}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("networks cannot be made here")
    try:
        ip("link", "add", cable, "type", "veth", "peer", "name", "far0", "netns", name)
        ip("addr", "add", f"{NEAR}/30", "dev", cable)
        ip("link", "set", cable, "up")
        ip("netns", "exec", name, "ip", "addr", "add", f"{FAR}/30", "dev", "far0")
        ip("netns", "exec", name, "ip", "link", "set", "far0", "up")
        yield name
    finally:
        ip("netns", "del", name)  # and the cable with it


def run(network, url, *words):
    command = ["ip", "netns", "exec", network, str(paths.LEVADA), *map(str, words)]
    return subprocess.run(command, env={**os.environ, "LEVADA_URL": url}, capture_output=True, text=True, timeout=120)


def test_a_store_is_used_from_where_its_gateway_alone_is_reached(far, tmp_path):
    store = Store(tmp_path / "store")
    gateway = subprocess.Popen(
        [str(paths.LEVADA), "gateway", "--url", store.fs, "--listen", f"{NEAR}:0", "--beside-servers", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        ready = json.loads(gateway.stdout.readline())
        assert ready["ready"] is True
        (tmp_path / "file").write_bytes(content.make(5_000_000))
        alone = run(far, store.fs, "ls", "/")
        assert alone.returncode == 1 and "127.0.0.1" in alone.stderr, alone.stderr
        through = ["--gateway", ready["gateway"]]
        for words in [("put", tmp_path / "file", "/file"), ("get", "/file", tmp_path / "back")]:
            done = run(far, store.fs, *words, *through)
            assert done.returncode == 0, done.stderr
        assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()
        assert levada(store.fs, "cat", "/file", text=False).stdout == (tmp_path / "file").read_bytes()
        # What is not the store's: the gateway's own address, say.
        other = run(far, f"hdfs://{ready['gateway']}", "ls", "/", *through)
        assert other.returncode == 1, other.stdout
        gateway.terminate()
        assert gateway.wait(10) == 0
    finally:
        gateway.kill()
        store.stop()
