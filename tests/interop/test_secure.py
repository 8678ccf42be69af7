"""`levada up --secure`: servers with certificates, tokens of blocks, and data that travels encrypted."""

import os
import signal
import socket
import ssl
import struct
import subprocess
import urllib.error
import urllib.request

import pytest

import content
import paths
from cli import levada
from java import hdfs_dfs
from kerberos import NONE, SecureUp
from paths import BLOCK
from roles import Roles
from store import eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

BLOCKS = ["-D", f"dfs.blocksize={BLOCK}"]


def asks_for_a_handshake(store) -> bool:
    with socket.create_connection(store.transfer[0], 5) as connection:
        connection.settimeout(10)
        connection.sendall(struct.pack(">hB", 28, 81) + b"\x05" + b"x" * 5)
        return b"dfs.data.transfer.protection" in connection.recv(4096)


def test_a_group_of_servers_with_certificates_goes_on_without_one(up, tmp_path):
    """Three metadata servers elect over TLS, tell datanodes keys over TLS, and one of them dies."""
    store = up("--secure", "--meta", "3", "--processes")
    data = content.make(2 * BLOCK + 5, 1)
    local = tmp_path / "f"
    local.write_bytes(data)
    levada(store.fs, "put", "--block-size", BLOCK, local, "/before")
    members = levada(store.fs, "admin", "meta", "list", "--json").stdout.splitlines()
    leader = next(number for number, line in enumerate(members) if '"leader"' in line)
    os.kill(store.pids["meta"][leader], signal.SIGKILL)
    put = lambda: levada(store.fs, "put", "--block-size", BLOCK, local, "/after", check=False).returncode == 0
    eventually(put, 60, "another one leads")
    for path in ["/before", "/after"]:
        assert levada(store.fs, "cat", path, text=False).stdout == data


def test_a_keytab_of_another_name_leaves_nothing(tmp_path):
    """Else the next start would be secure, and open to everybody."""
    keytab = tmp_path / "other.keytab"
    # As MIT's tools write it: version 2 of the file; realm and names, kind of name, time, number of the key, its cipher
    # (aes256-cts-hmac-sha1-96) and bytes.
    text = lambda word: struct.pack(">H", len(word)) + word
    name = struct.pack(">H", 2) + text(b"EXAMPLE.COM") + text(b"nn") + text(b"elsewhere") + struct.pack(">I", 1)
    entry = name + struct.pack(">IBH", 0, 1, 18) + text(bytes(32))
    keytab.write_bytes(b"\x05\x02" + struct.pack(">i", len(entry)) + entry)
    command = [paths.LEVADA, "up", "--dir", tmp_path / "x", "--port-base", "0", "--secure"]
    command += ["--principal", "nn/localhost@EXAMPLE.COM", "--keytab", keytab]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and str(keytab) in done.stderr and "nn/localhost@EXAMPLE.COM" in done.stderr
    assert not (tmp_path / "x").exists()


def test_a_store_that_was_secure_stays_so(up, tmp_path):
    """And one that was open becomes secure, with the files that it has."""
    store = up()
    data = content.make(BLOCK + 5, 2)
    local = tmp_path / "f"
    local.write_bytes(data)
    hdfs_dfs(store.fs, "-put", local, "/f", options=BLOCKS)
    assert not asks_for_a_handshake(store)
    nodes = sorted(directory.name for directory in store.directory.iterdir() if directory.name.startswith("data"))
    for options in [("--secure",), ()]:
        store.stop()
        store.options = options
        store.start()
        assert asks_for_a_handshake(store)
        hdfs_dfs(store.fs, "-get", "/f", tmp_path / f"got{len(options)}")
        assert (tmp_path / f"got{len(options)}").read_bytes() == data
        hdfs_dfs(store.fs, "-put", local, f"/g{len(options)}", options=BLOCKS)
    assert nodes == sorted(
        directory.name for directory in store.directory.iterdir() if directory.name.startswith("data")
    )


def test_status_pages_are_behind_tls(up):
    """For who knows the store's authority; who asks in the clear is told."""
    store = up("--secure", "--datanodes", "1")
    known = ssl.create_default_context(cafile=store.directory / "certificates" / "ca" / "ca.crt")
    pages = [store.http, *store.http_of_data]
    assert all(page.startswith("https://") for page in pages)
    for page in pages:
        assert urllib.request.urlopen(f"{page}/health", context=known, timeout=10).read() == b"ok\n"
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(f"{page}/health", context=ssl.create_default_context(), timeout=10)
        with pytest.raises(urllib.error.HTTPError, match="400") as plain:
            urllib.request.urlopen(f"{page.replace('https', 'http')}/health", timeout=10)
        assert b"this port speaks HTTPS alone" in plain.value.read()


class Certified(Roles):
    """Roles whose administrator made certificates with `levada certificate`, before each was started."""

    def certificate(self, *words):
        levada("", "certificate", *words)

    def equip(self, name: str, authority: str = "ca"):
        out = self.directory / f"{name}.certificate"
        who = ["member", "1"] if name == "meta" else ["datanode"]
        self.certificate(*who, "--authority", self.directory / authority, "--out", out)
        config = self.directory / f"{name}.toml"
        text = config.read_text()
        if name == "meta":
            text += "block_tokens = true\n[meta.security]\n"
        config.write_text(f'{text}node_certificates = "{out}"\n')

    def start(self, name: str) -> dict:
        if not (self.directory / "ca").exists():
            for authority in ["ca", "another"]:
                self.certificate("authority", self.directory / authority)
        if not (self.directory / f"{name}.certificate").exists():
            self.equip(name)
        return super().start(name)


def test_an_administrator_makes_certificates(tmp_path):
    """A datanode of another store is not let in; a new certificate is used without a restart."""
    roles = Certified(tmp_path / "roles", datanodes=2)
    try:
        data = content.make(BLOCK + 5, 4)
        local = tmp_path / "f"
        local.write_bytes(data)
        put = lambda path: levada(roles.fs, "put", "--block-size", BLOCK, "--replication", 2, local, path)
        put("/f")
        stranger = roles.describe_datanode()
        roles.equip(stranger, "another")
        process = subprocess.Popen(
            [paths.LEVADA, "data", "--config", roles.directory / f"{stranger}.toml"], stderr=subprocess.PIPE, text=True
        )
        # Behind a line that says that it starts.
        assert any("waits for the metadata server" in line or "certificate" in line for line in process.stderr)
        nodes = levada(roles.fs, "admin", "datanode", "list", "--json").stdout.splitlines()
        assert len(nodes) == 2, nodes
        process.kill()
        process.wait()
        # By the next look at the files: connections that are made from then on go by the new one.
        before = (roles.directory / "data1.certificate" / "node.crt").read_text()
        roles.certificate(
            "datanode", "--authority", roles.directory / "ca", "--out", roles.directory / "data1.certificate"
        )
        assert (roles.directory / "data1.certificate" / "node.crt").read_text() != before
        roles.kill("meta")
        roles.start("meta")
        eventually(lambda: levada(roles.fs, "cat", "/f", text=False, check=False).stdout == data, 60, "data1 is back")
        eventually(
            lambda: levada(roles.fs, "put", "--replication", 2, local, "/g", check=False).returncode == 0, 60, "both"
        )
    finally:
        roles.stop()


@pytest.fixture(scope="module", params=["authentication", "integrity", "privacy", "encrypted"])
def secure(request, tmp_path_factory):
    """As administrators of HDFS set `dfs.data.transfer.protection`, or `dfs.encrypt.data.transfer`."""
    word = request.param
    options = [] if word == "encrypted" else ["--data-transfer-protection", word]
    with SecureUp(tmp_path_factory.mktemp("secure") / word, *options) as secure:
        secure.hdfs_dfs(secure.superuser, "-chmod", "1777", "/")
        secure.word = word
        yield secure


def test_users_with_tickets_write_and_read(secure, tmp_path):
    protection = [] if secure.word == "encrypted" else ["-D", f"dfs.data.transfer.protection={secure.word}"]
    data = content.make(2 * BLOCK + 5, 3)
    local = tmp_path / "f"
    local.write_bytes(data)
    ada = secure.user("ada")
    secure.hdfs_dfs(ada, "-put", local, "/java", options=[*BLOCKS, *protection])
    secure.hdfs_dfs(ada, "-get", "/java", tmp_path / "got", options=protection)
    assert (tmp_path / "got").read_bytes() == data
    assert secure.levada(ada, "cat", "/java", text=False).stdout == data
    secure.levada(ada, "put", "--block-size", BLOCK, local, "/own")
    secure.hdfs_dfs(ada, "-get", "/own", tmp_path / "own", options=protection)
    assert (tmp_path / "own").read_bytes() == data
    secure.levada(ada, "chmod", "600", "/java")
    # Whose ticket it is counts, and not $HADOOP_USER_NAME.
    assert secure.levada(ada, "cat", "/java", text=False, user="bob").stdout == data
    denied = secure.levada(secure.user("bob"), "cat", "/java", check=False)
    assert "Permission denied: user=bob" in denied.stderr.replace("permission", "Permission"), denied.stderr
    refused = secure.levada(NONE, "ls", "/", check=False)
    assert refused.returncode != 0, refused.stdout
