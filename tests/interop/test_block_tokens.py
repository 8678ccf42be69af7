"""A store whose datanodes ask for block tokens: stock clients carry them along unseen, also when keys roll."""

import os
import signal
import time
import urllib.request

import pytest

import content
from clients import JavaApi, Ours
from cli import levada
from java import hdfs_dfs
from others import Native
from paths import BLOCK
from store import SUPERUSER, eventually

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]

# Keys that roll while a file is read or written. Tokens count for as long again, which is long enough for a busy
# machine.
INTERVAL_S = 5


def refused_count(store) -> int:
    """Operations whose token was refused, on all datanodes."""
    total = 0
    for address in store.http_of_data:  # of the form http://host:port
        text = urllib.request.urlopen(f"{address}/metrics").read().decode()
        counters = ("levada_token_refusals_total", "levada_handshake_refusals_total")
        lines = [line for line in text.splitlines() if line.startswith(counters)]
        total += sum(int(float(line.split()[-1])) for line in lines)
    return total



def test_clients_write_and_read_with_tokens(up, java, tmp_path):
    """Every client reads what every client has written, and none was ever refused."""
    store = up("--block-tokens")
    native = Native(store.fs, SUPERUSER)
    fs = java.mount(store.fs, SUPERUSER)
    fs.mkdirs("/d")
    files = {}
    for number, length in enumerate([1, 3000, BLOCK, 3 * BLOCK + 7]):
        data = content.make(length, number)
        local = tmp_path / f"f{number}"
        local.write_bytes(data)
        for name in ["java", "shell", "native", "levada"]:
            files[f"/d/{name}{number}"] = data
        fs.write(f"/d/java{number}", data, block=BLOCK)
        hdfs_dfs(store.fs, "-put", local, f"/d/shell{number}", options=["-D", f"dfs.blocksize={BLOCK}"])
        native.call("put", local=str(local), path=f"/d/native{number}", block=BLOCK)
        levada(store.fs, "put", "--block-size", BLOCK, local, f"/d/levada{number}")
    for path, data in files.items():
        got = tmp_path / "got"
        assert fs.read(path) == data, path
        native.call("get", path=path, local=str(got))
        assert got.read_bytes() == data, path
        assert levada(store.fs, "cat", path, text=False).stdout == data, path
    assert len({str(fs.checksum(path)) for path in files if path.endswith("3")}) == 1
    # What gives blocks to another file, cuts them or goes on with them changes no token.
    writer = fs.append("/d/java3")
    writer.write(b"more")
    writer.close()
    assert fs.read("/d/java3") == files["/d/java3"] + b"more"
    hdfs_dfs(store.fs, "-truncate", "-w", "100", "/d/native3")
    assert fs.read("/d/native3") == files["/d/native3"][:100]
    fs.rename("/d/levada3", "/d/renamed")
    assert fs.read("/d/renamed") == files["/d/levada3"]
    hdfs_dfs(store.fs, "-setrep", "-w", "2", "/d/renamed")
    assert fs.read("/d/renamed") == files["/d/levada3"]
    hdfs_dfs(store.fs, "-concat", "/d/java2", "/d/shell2", "/d/levada2")
    joined = files["/d/java2"] + files["/d/shell2"] + files["/d/levada2"]
    assert fs.read("/d/java2") == joined
    assert levada(store.fs, "cat", "/d/java2", text=False).stdout == joined
    native.stop()
    assert refused_count(store) == 0


# Behind a handshake the token is compared once before, and expires there as well.
ENCRYPTED = pytest.mark.parametrize("more", [[], ["--encrypt-data-transfer"]], ids=["plain", "encrypted"])


@ENCRYPTED
def test_readers_and_writers_go_on_when_keys_roll(up, java, more):
    """Tokens that clients hold expire under their hands: each asks for others, and nobody's program notices."""
    store = up("--block-tokens", "--block-key-interval", str(INTERVAL_S), *more)
    clients = [JavaApi(store, java), Ours(store)]
    data = content.make(4 * BLOCK, 1)
    readers, writers = [], []
    for client in clients:
        writer = client.writer(f"/{client.name}", BLOCK)
        writer.write(data)
        writer.close()
        reader = client.reader(f"/{client.name}")
        assert reader.read(1000) == data[:1000]
        readers.append(reader)
        writers.append(client.writer(f"/{client.name}-slow", BLOCK))
    until, step = time.monotonic() + 4 * INTERVAL_S, len(data) // 8
    for at in range(0, len(data), step):
        for writer in writers:
            writer.write(data[at : at + step])
        time.sleep(max(0, (until - time.monotonic()) * step / (len(data) - at)))
    for client, reader, writer in zip(clients, readers, writers, strict=True):
        writer.close()
        rest = b""
        while piece := reader.read(1 << 20):
            rest += piece
        assert rest == data[1000:], client.name
        check = client.reader(f"/{client.name}-slow")
        assert b"".join(iter(lambda: check.read(1 << 20), b"")) == data, client.name
    for client in clients:
        client.stop()
    assert refused_count(store) > 0, "the readers' tokens had expired"


@ENCRYPTED
def test_a_chain_that_lost_a_node_goes_on_and_is_copied(up, java, more):
    """The writer has another node take its replica, and what the lost node had is copied by orders of the leader."""
    store = up("--block-tokens", "--block-key-interval", str(10 * INTERVAL_S), "--processes", "--datanodes", "4", *more)
    fs = java.mount(store.fs, SUPERUSER)
    files = {f"/f{number}": content.make(BLOCK + 1000, number) for number in range(4)}
    writers = {path: fs.create(path, block=4 * BLOCK) for path in files}
    for path, writer in writers.items():
        writer.write(files[path][:BLOCK])
        writer.hflush()
    os.kill(store.pids["data"][0], signal.SIGKILL)
    for path, writer in writers.items():
        writer.write(files[path][BLOCK:])
        writer.close()
    for path, data in files.items():
        assert fs.read(path) == data, path
    # Three nodes are left, and each has all of it.
    eventually(lambda: not levada(store.fs, "admin", "under-replicated", "--json").stdout.strip(), 90, "all is copied")
    for path, data in files.items():
        assert levada(store.fs, "cat", path, text=False).stdout == data, path
