"""Datanodes that come to a store with certificates by a token, as an administrator lets them."""

import json
import re
import signal
import subprocess

import pytest

import content
import paths
from cli import levada
from paths import BLOCK
from roles import Roles, free_port
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]


class Secure(Roles):
    """A metadata server that has the store's authority, and datanodes without certificates."""

    def __init__(self, directory, datanodes: int):
        directory.mkdir()
        self.authority, self.directory = directory / "ca", directory / "roles"
        run("certificate", "authority", self.authority)
        run("certificate", "member", 1, "--authority", self.authority, "--out", directory / "meta")
        security = f'{{ node_certificates = "{directory}/meta", authority = "{self.authority}" }}'
        super().__init__(self.directory, 0, replication=2, security=security)
        for _ in range(datanodes):
            self.describe_datanode()

    def describe_datanode(self, rows: str = "", host: str = "127.0.0.1") -> str:
        name = f"data{len(self.names) + 1}"
        return super().describe_datanode(f'{rows}node_certificates = "{self.certificates(name)}"\n', host)

    def certificates(self, name: str):
        return self.directory / f"{name}-certificates"

    def admin(self, *words) -> list[dict]:
        out = levada(self.fs, "admin", "datanode", *words, "--json").stdout
        return [json.loads(line) for line in out.splitlines()]

    def token(self, *words) -> str:
        return self.admin("invite", *words)[0]["token"]

    def join(self, name: str, token) -> subprocess.CompletedProcess:
        """Starts it until it is up, and stops it; or sees it refused."""
        command = [paths.LEVADA, "data", "--config", self.directory / f"{name}.toml", "--json", "--join", token]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess(command, process.returncode, line + out, err)

    def is_up(self, node: str) -> bool:
        return any(line["id"] == node and line["state"] == "up" for line in self.admin("list"))


def run(*words) -> str:
    return subprocess.run(list(map(str, [paths.LEVADA, *words])), check=True, capture_output=True, text=True).stdout


@pytest.fixture
def secure(tmp_path):
    store = Secure(tmp_path / "secure", 2)
    yield store
    store.stop()


def test_a_store_grows_by_tokens(secure, tmp_path):
    """Two datanodes join, one by a token in a file; both serve, and go on without the token."""
    kept = tmp_path / "token"
    kept.write_text(secure.token("--expires", "30m") + "\n")
    tokens = {"data1": f"@{kept}", "data2": secure.token()}
    assert all(secure.join(name, token).returncode == 0 for name, token in tokens.items())
    nodes = [secure.start(name)["node"] for name in secure.names]
    assert all(
        f"levada://datanode/{node}" in run("certificate", "show", secure.certificates(name))
        for node, name in zip(nodes, secure.names)
    )
    assert sorted(line["taken_by"] for line in secure.admin("invitations")) == sorted(nodes)
    data = content.make(2 * BLOCK + 5, 1)
    local = tmp_path / "f"
    local.write_bytes(data)
    levada(secure.fs, "put", "--block-size", BLOCK, "--replication", 2, local, "/f")
    for name in secure.names:
        secure.kill(name)
        # A service may be started with its token for ever, also when somebody has removed its file.
        kept.unlink(missing_ok=True)
        assert secure.join(name, tokens[name]).returncode == 0
        secure.start(name)
    secure.kill("data2")
    refused = secure.join("data2", secure.token())
    assert refused.returncode == 1 and "ask for a token that is for it" in refused.stderr
    secure.start("data2")
    assert levada(secure.fs, "cat", "/f", text=False).stdout == data


def test_a_token_is_for_one_and_can_be_withdrawn(secure):
    token = secure.token()
    assert secure.join("data1", token).returncode == 0
    refused = secure.join("data2", token)
    assert refused.returncode == 1 and "has joined by this token already" in refused.stderr
    number = secure.admin("invite")[0]["number"]
    made = levada(secure.fs, "admin", "node", "invite")
    told = re.search(r"uninvite ([0-9a-f]{8})", made.stderr).group(1)
    assert {number, told} <= {line["number"] for line in secure.admin("invitations")}
    for gone in [number, told]:
        secure.admin("uninvite", gone)
    refused = secure.join("data2", made.stdout.strip())
    assert refused.returncode == 1 and "withdrawn" in refused.stderr
    assert "copy it once more" in secure.join("data2", made.stdout.strip()[:-3]).stderr
    assert levada(secure.fs, "admin", "node", "uninvite", number, check=False).returncode == 1


def test_a_datanode_whose_certificate_was_revoked_is_gone_until_it_is_invited(secure):
    assert secure.join("data1", secure.token()).returncode == 0
    node = secure.start("data1")["node"]
    eventually(lambda: secure.is_up(node), 20, "it is up")
    secure.admin("revoke", node[:8])
    eventually(lambda: "was revoked" in (secure.directory / "data1.log").read_text(), 20, "it is told")
    secure.kill("data1")
    key = secure.certificates("data1") / "node.key"
    stolen = key.read_bytes()
    refused = secure.join("data1", secure.token())
    assert refused.returncode == 1 and "ask for a token that is for it" in refused.stderr
    assert secure.join("data1", secure.token("--datanode", node)).returncode == 0
    assert key.read_bytes() != stolen
    assert secure.start("data1")["node"] == node
    eventually(lambda: secure.is_up(node), 20, "it is back")


def test_a_certificate_that_is_due_is_replaced_while_the_datanode_runs(secure):
    """It was made 50 of its 90 days ago."""
    certificates = secure.certificates("data1")
    words = ["certificate", "datanode", "--authority", secure.authority, "--out", certificates]
    subprocess.run(["faketime", "-f", "-50d", str(paths.LEVADA), *map(str, words)], check=True)
    assert "it is time for another one" in run("certificate", "show", certificates)
    before = (certificates / "node.crt").read_bytes()
    node = secure.start("data1")["node"]
    eventually(lambda: (certificates / "node.crt").read_bytes() != before, 30, "there is another one")
    shown = run("certificate", "show", certificates)
    assert node in shown and "it is time" not in shown
    secure.kill("data1")
    assert secure.start("data1")["node"] == node


def test_up_secure_takes_a_datanode_of_another_directory(up, tmp_path):
    """What one command made grows as any other store does."""
    store = up("--secure", "--datanodes", "1")
    token = json.loads(levada(store.fs, "admin", "datanode", "invite", "--json").stdout)["token"]
    config = tmp_path / "data.toml"
    addrs = [f'{key} = "127.0.0.1:{free_port()}"\n' for key in ["xfer_addr", "ipc_addr"]]
    metad = store.fs.removeprefix("hdfs://")
    config.write_text(
        f'[data]\ndir = "{tmp_path}/more"\nnode_certificates = "{tmp_path}/keys"\nmetad = "{metad}"\n{"".join(addrs)}'
    )
    command = [str(paths.LEVADA), "data", "--config", str(config), "--json", "--join", token]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        node = json.loads(process.stdout.readline())["node"]
        listed = levada(store.fs, "admin", "datanode", "list", "--json").stdout
        assert node in listed and listed.count('"id"') == 2
    finally:
        process.terminate()
        process.wait(20)
