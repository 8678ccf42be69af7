"""Whose directory a datanode's is: two processes on one are refused, and so is one of another cluster, in words that
help."""

import subprocess

import pytest

import content
import paths
from roles import Roles, free_port
from store import SUPERUSER

pytestmark = pytest.mark.levada


@pytest.fixture
def clusters(tmp_path):
    made = []

    def start(datanodes):
        made.append(Roles(tmp_path / f"roles{len(made)}", datanodes))
        return made[-1]

    yield start
    for roles in made:
        roles.stop()


def refusal(role: str, path, rows: str) -> str:
    """What a server says that must not start."""
    path.write_text(rows)
    done = subprocess.run(
        [str(paths.LEVADA), role, "--config", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def datanode(directory, metad) -> str:
    addrs = f'xfer_addr = "127.0.0.1:{free_port()}"\nipc_addr = "127.0.0.1:{free_port()}"\n'
    return f'[data]\ndir = "{directory}"\n{addrs}metad = "{metad}"\n'


def test_two_datanodes_on_one_directory(clusters, java, tmp_path):
    roles = clusters(1)
    said = refusal("data", tmp_path / "second.toml", datanode(roles.data_dirs[0], roles.metad))
    assert f"{roles.data_dirs[0]} is in use by another process" in said, said
    fs = java.mount(roles.fs, SUPERUSER)
    fs.write("/f", content.make(1000), replication=1)
    assert fs.read("/f") == content.make(1000), "the first one is unharmed"


def test_two_metadata_servers_on_one_directory(clusters, tmp_path):
    roles = clusters(1)
    rows = f'http_addr = "127.0.0.1:0"\n[meta]\ndir = "{roles.directory}/meta"\nrpc_addr = "127.0.0.1:{free_port()}"\n'
    said = refusal("meta", tmp_path / "second.toml", rows)
    assert "in use" in said and str(roles.directory / "meta") in said, said


def test_a_directory_of_another_cluster(clusters, java, tmp_path):
    """It is refused before it tells anything, and belongs to its own cluster as before."""
    one, other = clusters(1), clusters(1)
    fs = java.mount(one.fs, SUPERUSER)
    fs.write("/f", content.make(1000), replication=1)
    one.kill("data1")
    said = refusal("data", tmp_path / "lost.toml", datanode(one.data_dirs[0], other.metad))
    assert "made for another cluster" in said and "block pool BP-" in said, said
    one.start("data1")
    assert fs.read("/f") == content.make(1000)
