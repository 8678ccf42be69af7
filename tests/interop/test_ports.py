"""Strangers at every port alike: the metadata server's RPC and HTTP, a datanode's data transfer and RPC.

test_hostile.py attacks what is behind a port, in its own words; here each port gets what any port gets. Memory is held
against `--memory`, with a little for the program itself.
"""

import os
import random
import socket
import struct
import threading
import time

import pytest

import content
import crowd
from rawrpc import CLIENT, Connection, fields, message
from store import SUPERUSER, Store, eventually
from stranger import send

pytestmark = pytest.mark.levada

MEMORY = 256 << 20
PROGRAM = 64 << 20  # idle it has 30 MB; stacks and heaps of threads that were busy stay for a while
PORTS = ["rpc", "http", "transfer", "node rpc"]
HELLO = {
    "rpc": b"hrpc\x09\x00\x00",
    "http": b"GET /status HTTP/1.1\r\nHost: levada\r\n",
    "transfer": b"\x00\x1c\x51",
    "node rpc": b"hrpc\x09\x00\x00",
}
CROWD = 3000
ASKED = 300  # by each that never reads: far more than buffers hold, and not so much that answering it is the load


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("ports") / "levada", "--memory", str(MEMORY))
    host, port = store.http.removeprefix("http://").rstrip("/").rsplit(":", 1)
    with Connection(store.rpc, SUPERUSER) as connection:
        # Of the live nodes the first one's id: address and RPC port.
        node = fields(fields(connection.call(1, "getDatanodeReport", message((1, 2))).body)[1][0])
        ident = fields(node[1][0])
    store.ports = {
        "rpc": store.rpc,
        "http": (host, int(port)),
        "transfer": store.transfer[0],
        "node rpc": (ident[1][0].decode(), ident[6][0]),
    }
    crowd.allow(CROWD + 1000)
    yield store
    store.stop()


@pytest.fixture(params=PORTS)
def port(request):
    return request.param


@pytest.fixture(autouse=True)
def still_works(victim, java):
    yield
    serves(victim, java)


def serves(victim, java):
    """Every port serves others, in the same process, in bounded memory."""
    fs = java.mount(victim.fs, SUPERUSER)
    data = content.make(300_000)
    fs.write("/f", data, overwrite=True)
    assert fs.read("/f") == data
    fs.unmount()
    assert b" 200 " in ask(victim.ports["http"], b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    # Hadoop's words for a lost browser.
    assert b"404" in ask(victim.ports["node rpc"], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert victim.process.poll() is None
    assert victim.resident() < MEMORY + PROGRAM, victim.resident()
    assert "panicked" not in victim.log()


def ask(address, request: bytes) -> bytes:
    answer = b""
    with socket.create_connection(address, 10) as s:
        s.sendall(request)
        while part := s.recv(65536):
            answer += part
    return answer


def test_random_bytes(victim, port):
    for seed in range(20):
        noise = random.Random(seed).randbytes(20_000)
        send(victim.ports[port], noise)
        send(victim.ports[port], HELLO[port] + noise)


def test_lengths_that_lie(victim, port):
    """The longest and the most contradictory, in every place and form a length could have."""
    lengths = [struct.pack(">i", number) for number in (-1, -(2**31), 0, 2**31 - 1, 129 << 20)]
    lengths += [b"\xff" * 10, b"\xff\xff\xff\xff\x07", b"\x80" * 20, b"\x00" * 8]
    lengths += [b"Content-Length: %d\r\n\r\n" % number for number in (2**63 - 1, 2**64, 10**40)]
    lengths += [
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    ]
    for length in lengths:
        send(victim.ports[port], HELLO[port] + length + b"x" * 200)
        send(victim.ports[port], length + b"x" * 200)


def test_words_cut_off_anywhere(victim, port):
    """Each beginning of a sound hello, then the end, or a reset."""
    whole = HELLO[port] + b"\r\n"
    for length in range(len(whole)):
        for reset in (False, True):
            with socket.create_connection(victim.ports[port], 10) as s:
                if reset:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.sendall(whole[:length])


def test_much_that_never_ends(victim, port):
    """Forty send as fast as they can, without an end, what the port must wait for the end of."""
    stop = time.monotonic() + 3

    def flood():
        try:
            with socket.create_connection(victim.ports[port], 10) as s:
                s.settimeout(2)
                s.sendall(HELLO[port] + b"X: " + b"a" * 1000)
                while time.monotonic() < stop:
                    s.sendall(b"a" * 65536)
        except (TimeoutError, ConnectionError):
            pass

    threads = [threading.Thread(target=flood) for _ in range(40)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert victim.resident() < MEMORY + PROGRAM, victim.resident()
        time.sleep(0.2)


def test_slow_senders_hold_nobody_up(victim, port, java):
    """Two hundred of them, a byte now and then."""
    slow = []
    for _ in range(200):
        s = socket.create_connection(victim.ports[port], 10)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        slow.append(s)
    hello = HELLO[port]
    for place in range(5):
        for s in slow:
            try:
                s.sendall(hello[place : place + 1])
            except ConnectionError:
                pass  # it had enough of this one
    serves(victim, java)
    for s in slow:
        s.close()


def test_a_crowd_that_only_connects(victim, port, java):
    crowded = [socket.create_connection(victim.ports[port], 30) for _ in range(CROWD)]
    serves(victim, java)
    for s in crowded:
        s.close()
    handles = lambda: len(os.listdir(f"/proc/{victim.process.pid}/fd"))
    eventually(lambda: handles() < 600, 30, "the connections are given back")


def test_half_open_connections(victim, port, java):
    """Their side is closed for writing, or they asked for something; then nothing is heard of them."""
    crowded = []
    for number in range(300):
        s = socket.create_connection(victim.ports[port], 10)
        if number % 2:
            s.sendall(HELLO[port][: number % len(HELLO[port])])
        if number % 3 == 0:
            s.shutdown(socket.SHUT_WR)
        crowded.append(s)
    serves(victim, java)
    for s in crowded:
        s.close()


def test_clients_that_never_read(victim, port, java):
    """They ask, again and again, and take no answer."""
    with Connection(victim.rpc, SUPERUSER) as connection:
        head = connection.header(1)
    call = rpc_call(head)
    question = {
        "rpc": HELLO["rpc"] + rpc_context() + call * ASKED,
        "http": (HELLO["http"] + b"\r\n") * ASKED,
        "transfer": b"\x00\x1c\x51" + b"\x00" * 2000,
        "node rpc": HELLO["node rpc"] + rpc_context() + call * ASKED,
    }[port]
    deaf = []
    for _ in range(150):
        s = socket.create_connection(victim.ports[port], 10)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.setblocking(False)
        try:
            s.send(question)
        except (BlockingIOError, ConnectionError):
            pass
        deaf.append(s)
    time.sleep(1)
    serves(victim, java)
    for s in deaf:
        s.close()


def frame(*parts: bytes) -> bytes:
    body = b"".join(bytes([len(part)]) + part for part in parts)
    return struct.pack(">i", len(body)) + body


def rpc_context() -> bytes:
    header = message((1, 2), (2, 0), (3, 5), (4, b"c" * 16))  # call id -3, as zigzag has it
    return frame(header, message((2, message((1, "root"))), (3, CLIENT)))


def rpc_call(header: bytes) -> bytes:
    return frame(header, message((1, "getDatanodeReport"), (2, CLIENT), (3, 1)), message((1, 1)))
