"""A store that protects data transfer: stock clients shake hands before their first operation, and who does not is
refused."""

import socket
import struct
import urllib.request

import pytest

import content
from cli import levada
from java import hdfs_dfs
from others import Native
from paths import BLOCK
from store import SUPERUSER

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

# What stock Java agrees on where the servers say that data is encrypted: AES if its settings have a suite.
AES = {"dfs.encrypt.data.transfer.cipher.suites": "AES/CTR/NoPadding"}


def refused_count(store, what: str) -> int:
    total = 0
    for url in store.http_of_data:
        text = urllib.request.urlopen(f"{url}/metrics").read().decode()
        lines = [line for line in text.splitlines() if line.startswith(f"levada_{what}_refusals_total")]
        total += sum(int(float(line.split()[-1])) for line in lines)
    return total


@pytest.fixture(scope="module")
def encrypting(tmp_path_factory):
    from store import Store

    store = Store(tmp_path_factory.mktemp("encrypting") / "store", "--block-tokens", "--encrypt-data-transfer")
    yield store
    store.stop()


def check_java(fs, directory):
    """Writes by a chain of three, reads, goes on with a file, and reads again."""
    fs.mkdirs(directory)
    data = content.make(3 * BLOCK + 7, 5)
    fs.write(f"{directory}/f", data, block=BLOCK)
    assert fs.read(f"{directory}/f") == data
    writer = fs.append(f"{directory}/f")
    writer.write(b"more")
    writer.close()
    assert fs.read(f"{directory}/f") == data + b"more"
    return data + b"more"


@pytest.mark.parametrize("conf", [AES, {}], ids=["aes", "3des"])
def test_stock_java_encrypts_where_the_servers_say_so(encrypting, java, conf):
    directory = "/aes" if conf else "/3des"
    fs = java.mount(encrypting.fs, SUPERUSER, conf)
    data = check_java(fs, directory)
    assert levada(encrypting.fs, "cat", f"{directory}/f", text=False).stdout == data
    assert refused_count(encrypting, "token") == refused_count(encrypting, "handshake") == 0


def test_the_shell_encrypts_without_a_setting(encrypting, tmp_path):
    data = content.make(2 * BLOCK + 3, 6)
    local = tmp_path / "f"
    local.write_bytes(data)
    hdfs_dfs(encrypting.fs, "-put", local, "/shell", options=["-D", f"dfs.blocksize={BLOCK}"])
    hdfs_dfs(encrypting.fs, "-get", "/shell", tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == data
    assert levada(encrypting.fs, "cat", "/shell", text=False).stdout == data


def test_hdfs_native_encrypts(encrypting, tmp_path):
    data = content.make(2 * BLOCK + 3, 7)
    local, got = tmp_path / "f", tmp_path / "got"
    local.write_bytes(data)
    native = Native(encrypting.fs, SUPERUSER)
    native.call("put", local=str(local), path="/native", block=BLOCK)
    native.call("get", path="/native", local=str(got))
    assert got.read_bytes() == data
    native.stop()


@pytest.mark.parametrize("word", ["authentication", "integrity", "privacy"])
def test_our_own_client_agrees_on_what_is_asked(up, tmp_path, word):
    """Large files and small ones, a directory's worth, copies made by reading."""
    store = up("--block-tokens", "--data-transfer-protection", word)
    for number, length in enumerate([1, 3000, 2 * BLOCK + 7]):
        data = content.make(length, number)
        local = tmp_path / f"f{number}"
        local.write_bytes(data)
        levada(store.fs, "put", "--block-size", BLOCK, local, f"/f{number}")
        assert levada(store.fs, "cat", f"/f{number}", text=False).stdout == data
    assert refused_count(store, "token") == refused_count(store, "handshake") == 0


def test_who_does_not_shake_hands_is_refused(encrypting):
    """An operation without a handshake gets an answer that says what is missing, whatever its token is."""
    with socket.create_connection(encrypting.transfer[0], 5) as connection:
        connection.settimeout(10)
        connection.sendall(struct.pack(">hB", 28, 81) + b"\x05" + b"x" * 5)
        answer = connection.recv(4096)
    assert b"dfs.data.transfer.protection = privacy" in answer, answer
    assert refused_count(encrypting, "handshake") == 1


def test_a_store_without_tokens_has_no_handshake(up):
    store = up()
    with socket.create_connection(store.transfer[0], 5) as connection:
        connection.settimeout(10)
        connection.sendall(bytes.fromhex("deadbeef") + b"\x04\x08\x00\x12\x00")
        answer = connection.recv(4096)
        assert b"this node has no keys" in answer, answer
        assert connection.recv(4096) == b""
