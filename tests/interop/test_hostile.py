"""Strangers at the ports: wrong lengths, garbage, half frames, crowds. The store goes on and its memory stays
bounded."""

import os
import random
import resource
import socket
import struct
import time

import pytest

import content
import paths
from store import SUPERUSER, eventually
from stranger import left_no_mark, send

pytestmark = pytest.mark.levada

MEMORY_MAX = 400e6  # private pages of the whole store: idle is under 60 MB, `up` promises about --memory (1 GB) at most
PREAMBLE = b"hrpc\x09\x00\x00"
GOLDEN = paths.ROOT / "crates"


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    from store import Store

    store = Store(tmp_path_factory.mktemp("victim") / "levada")
    yield store
    store.stop()


@pytest.fixture(autouse=True)
def still_works(victim, java):
    yield
    left_no_mark(victim, java, MEMORY_MAX)


def closes(address, data: bytes, seconds: float = 5):
    """The server ends this connection, in its own time but soon."""
    with socket.create_connection(address, 5) as s:
        s.settimeout(seconds)
        try:
            s.sendall(data)
            while s.recv(65536):
                pass
        except ConnectionError:
            return
        except TimeoutError:
            pytest.fail(f"still open {seconds} s after {data[:40]!r}…")


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def golden(crate: str, name: str) -> bytes:
    return (GOLDEN / crate / "tests" / "golden" / f"{name}.client.bin").read_bytes()


LENGTHS = [-1, -(2**31), 0, 2**31 - 1, 129 << 20]


class TestControl:
    @pytest.mark.parametrize("length", LENGTHS)
    def test_length_of_a_frame(self, victim, length):
        closes(victim.rpc, PREAMBLE + struct.pack(">i", length) + b"x" * 100)

    def test_large_frames_that_never_come(self, victim):
        """Each announces 100 MB and sends some bytes: memory is not taken for what has not arrived."""
        crowd = []
        for _ in range(60):
            s = socket.create_connection(victim.rpc)
            s.sendall(PREAMBLE + struct.pack(">i", 100 << 20) + b"x" * 1000)
            crowd.append(s)
        time.sleep(1)
        assert victim.resident() < MEMORY_MAX, victim.resident()
        for s in crowd:
            s.close()

    @pytest.mark.parametrize("seed", range(20))
    def test_garbage(self, victim, seed):
        noise = random.Random(seed).randbytes(20_000)
        send(victim.rpc, noise)
        send(victim.rpc, PREAMBLE + noise)
        send(victim.rpc, PREAMBLE + frame(noise[:1000]) + frame(noise[1000:5000]))

    def test_delimited_lengths_that_lie(self, victim):
        for header in (b"\xff" * 10, b"\xff\xff\xff\xff\x07", b"\x7f", b"\x80", b"\x00\x00", b"\x05\x08\x02"):
            send(victim.rpc, PREAMBLE + frame(header), 0.2)

    def test_damaged_conversations(self, victim):
        """A real client's bytes with some of them changed."""
        chance = random.Random(7)
        for name in ("stat", "put", "list", "append", "errors"):
            whole = golden("hdfs", name)
            send(victim.rpc, whole, 0.2)
            for _ in range(30):
                bad = bytearray(whole)
                for _ in range(chance.randint(1, 5)):
                    bad[chance.randrange(7, len(bad))] = chance.randrange(256)
                send(victim.rpc, bytes(bad[: chance.randint(8, len(bad))]))

    def test_other_protocols(self, victim):
        assert b"404" in send(victim.rpc, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 10)
        closes(victim.rpc, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 200)
        closes(victim.rpc, b"hrpc\x08\x00\x00")
        closes(victim.rpc, b"hrpc\x09\x00\x55")

    def test_a_thousand_idle_connections(self, victim, java):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
        crowd = []
        for address in (victim.rpc, victim.transfer[0]):
            crowd += [socket.create_connection(address, 5) for _ in range(1000)]
        fs = java.mount(victim.fs, SUPERUSER)
        fs.write("/crowd", content.make(2_000_000), overwrite=True)
        assert fs.read("/crowd") == content.make(2_000_000)
        assert victim.resident() < MEMORY_MAX
        for s in crowd:
            s.close()
        handles = lambda: len(os.listdir(f"/proc/{victim.process.pid}/fd"))
        eventually(lambda: handles() < 500, 10, "the connections are given back")

    def test_a_slow_sender(self, victim, java):
        """One byte at a time holds up nobody else."""
        with socket.create_connection(victim.rpc) as s:
            for byte in (PREAMBLE + frame(b"\x08\x02\x10\x00\x18\x05"))[:12]:
                s.sendall(bytes([byte]))
                time.sleep(0.02)
            fs = java.mount(victim.fs, SUPERUSER)
            assert fs.exists("/")


class TestTransfer:
    @pytest.mark.parametrize("seed", range(20))
    def test_garbage(self, victim, seed):
        noise = random.Random(seed).randbytes(20_000)
        send(victim.transfer[0], noise)
        for operation in (80, 81, 82, 85, 86, 87, 90, 127, 255):
            send(victim.transfer[0], b"\x00\x1c" + bytes([operation]) + noise[:500])

    @pytest.mark.parametrize("operation", [80, 81, 85, 86])
    def test_length_of_an_operation(self, victim, operation):
        for varint in (b"\xff\xff\xff\xff\x07", b"\xff" * 10, b"\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x0f"):
            closes(victim.transfer[0], b"\x00\x1c" + bytes([operation]) + varint + b"x" * 50)

    def test_other_versions(self, victim):
        closes(victim.transfer[0], b"\x00\x1b\x50\x00")
        closes(victim.transfer[0], b"GET / HTTP/1.1\r\n\r\n")

    def test_operations_that_never_come(self, victim):
        crowd = []
        for _ in range(200):
            s = socket.create_connection(victim.transfer[0])
            s.sendall(b"\x00\x1c\x50\xff\xff\x03")
            crowd.append(s)
        time.sleep(0.5)
        assert victim.resident() < MEMORY_MAX
        for s in crowd:
            s.close()

    def test_damaged_writes(self, victim):
        """A real client's write with changed bytes: mad lengths, wrong checksums, cut anywhere. Its targets are
        gone."""
        chance = random.Random(11)
        for name in ("write_tail", "hflush", "append", "write_crc32"):
            whole = golden("wire", name)
            send(victim.transfer[1], whole, 0.2)
            for _ in range(40):
                bad = bytearray(whole)
                for _ in range(chance.randint(1, 4)):
                    bad[chance.randrange(len(bad))] = chance.randrange(256)
                send(victim.transfer[1], bytes(bad[: chance.randint(3, len(bad))]))

    def test_reads_of_blocks_that_are_not_there(self, victim):
        for name in ("read", "read_tail", "checksum_md5", "read_unverified"):
            answer = send(victim.transfer[2], golden("wire", name), 10)  # it closes the connection behind it
            assert answer, f"{name}: a refusal is told"

    def test_packets_with_mad_lengths(self, victim):
        """After a valid set-up of a one-node chain."""
        whole = golden("wire", "write_tail")
        setup = whole[: first_packet(whole)]
        for packet in (
            struct.pack(">ih", 2**31 - 1, 25),
            struct.pack(">ih", -1, 25),
            struct.pack(">ih", 3, 25),
            struct.pack(">ih", 4, -1),
            struct.pack(">ih", 4, 32767) + b"x" * 40000,
            struct.pack(">ih", 16 << 20, 25) + b"\xff" * 25,
        ):
            send(victim.transfer[0], setup + packet, 0.3)


def first_packet(stream: bytes) -> int:
    """Where the first packet of a recorded write begins: behind version, op and the delimited message."""
    length, shift, at = 0, 0, 3
    while True:
        byte = stream[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return at + length
