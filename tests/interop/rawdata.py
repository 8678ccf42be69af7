"""HDFS data transfer by hand: reads and writes of one block, packet by packet."""

import socket
import struct
from dataclasses import dataclass

import content
from rawrpc import Connection, delimited, fields, message, read_varint
from store import address

WRITE, READ, CHECKSUM = 80, 81, 85
CREATE, APPEND, STREAMING_RECOVERY = 6, 0, 3  # BlockConstructionStage
OK, FAILED, BAD_CHECKSUM = 0, 1, 2  # Status


class Refused(AssertionError):
    """A metadata server answered with an exception."""


def zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


@dataclass
class Located:
    """A block as the namespace tells of it; `block`, `nodes` and `token` are its messages, to be sent on."""

    block: bytes
    nodes: list[bytes]
    token: bytes
    offset: int
    storages: list[bytes]

    @classmethod
    def parse(cls, data: bytes) -> "Located":
        f = fields(data)
        nodes = [fields(info)[1][0] for info in f.get(3, [])]
        made = cls(f[1][0], nodes, f[5][0], f.get(2, [0])[0], f.get(9, f.get(8, [])))
        made.infos = f.get(3, [])
        return made

    @property
    def length(self) -> int:
        return fields(self.block).get(4, [0])[0]

    def extended(self, **changes) -> bytes:
        """ExtendedBlockProto with another length, stamp or id."""
        f = fields(self.block)
        pick = lambda name, number: changes.get(name, f.get(number, [0])[0])
        return message((1, f[1][0]), (2, pick("block", 2)), (3, pick("generation", 3)), (4, pick("length", 4)))

    @property
    def block_id(self) -> int:
        return fields(self.block)[2][0]

    @property
    def generation(self) -> int:
        return fields(self.block)[3][0]

    def addresses(self):
        return [(fields(node)[1][0].decode(), fields(node)[4][0]) for node in self.nodes]


class Names:
    """The calls of the namespace that a writer needs."""

    def __init__(self, url: str, user: str, holder: str = "raw"):
        self.rpc, self.holder, self.calls = Connection(address(url), user), holder, 0

    def call(self, method, *body):
        self.calls += 1
        answer = self.rpc.call(self.calls, method, message(*body))
        if answer.status != 0:
            raise Refused(method, answer.kind, answer.text[:300])
        return fields(answer.body)

    def blocks(self, path) -> list[Located]:
        answer = self.call("getBlockLocations", (1, path), (2, 0), (3, 1 << 62))
        return [Located.parse(data) for data in fields(answer[1][0]).get(2, [])]

    def create(self, path, replication=3, block=1 << 20):
        mode = message((1, 0o644))
        answer = self.call(
            "create", (1, path), (2, mode), (3, self.holder), (4, 3), (5, 1), (6, replication), (7, block)
        )
        self.file = fields(answer[1][0])[13][0]

    def add_block(self, path, previous=None) -> Located:
        rest = [(3, previous)] if previous else []
        answer = self.call("addBlock", (1, path), (2, self.holder), *rest, (5, self.file))
        return Located.parse(answer[1][0])

    def complete(self, path, last) -> bool:
        return self.call("complete", (1, path), (2, self.holder), (3, last), (4, self.file))[1] == [1]


class Transfer:
    """One connection to a datanode."""

    def __init__(self, where):
        self.socket = socket.create_connection(where, 5)
        self.socket.settimeout(10)
        self.data = b""

    def close(self):
        self.socket.close()

    def operation(self, code: int, body: bytes):
        self.socket.sendall(b"\x00\x1c" + bytes([code]) + delimited(body))

    def exactly(self, length: int) -> bytes:
        while len(self.data) < length:
            part = self.socket.recv(1 << 20)
            if not part:
                raise ConnectionError("closed")
            self.data += part
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def delimited(self) -> dict:
        length = b""
        while not length or length[-1] & 0x80:
            length += self.exactly(1)
        return fields(self.exactly(read_varint(length, 0)[0]))

    def closed(self) -> bool:
        try:
            return not self.data and self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    # --- reading

    def read(self, located: Located, offset=0, length=None, checksums=True, **block):
        header = message((1, message((1, located.extended(**block)), (2, located.token))), (2, "raw"))
        length = located.length - offset if length is None else length
        self.operation(READ, message((1, header), (2, offset), (3, length), (4, int(checksums))))
        return self.delimited()

    def packet(self) -> "Packet":
        total, header_length = struct.unpack(">ih", self.exactly(6))
        header = self.exactly(header_length)
        f = fields(header)
        size = struct.unpack("<i", f[4][0])[0]
        sums = self.exactly(total - 4 - size)
        return Packet(
            struct.unpack("<q", f[1][0])[0],
            struct.unpack("<q", f[2][0])[0],
            bool(f[3][0]),
            sums,
            self.exactly(size),
            header_length,
        )

    # --- writing

    def write(
        self, located: Located, targets=(), stage=CREATE, kind=2, chunk=512, generation=0, received=0, sent=0, **block
    ):
        header = message((1, message((1, located.extended(**block)), (2, located.token))), (2, "raw"))
        body = message(
            (1, header),
            *((2, info) for info in targets),
            (4, stage),
            (5, 1 + len(targets)),
            (6, received),
            (7, sent),
            (8, generation),
            (9, message((1, kind), (2, chunk))),
        )
        self.operation(WRITE, body)
        return self.delimited()

    def send(self, offset, seqno, data=b"", last=False, sync=False, chunk=512, kind="CRC32C", sums=None):
        if sums is None:
            pieces = (data[i : i + chunk] for i in range(0, len(data), chunk))
            sums = b"".join(content.crc(kind, piece).to_bytes(4, "big") for piece in pieces) if kind else b""
        header = b"\x09" + struct.pack("<q", offset) + b"\x11" + struct.pack("<q", seqno) + b"\x18" + bytes([last])
        header += b"\x25" + struct.pack("<i", len(data)) + (b"\x28\x01" if sync else b"")
        self.socket.sendall(struct.pack(">ih", 4 + len(sums) + len(data), len(header)) + header + sums + data)

    def ack(self) -> tuple[int, list[int]]:
        """Sequence number and one status for each node."""
        f = self.delimited()
        replies = [status for value in f[2] for status in ([value] if isinstance(value, int) else list(value))]
        return zigzag(f[1][0]), replies


@dataclass
class Packet:
    offset: int
    seqno: int
    last: bool
    sums: bytes
    data: bytes
    header_length: int
