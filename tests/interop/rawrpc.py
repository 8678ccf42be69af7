"""Hadoop RPC by hand: just enough to send what no client would, and to see each field of an answer.

Messages are lists of (field, value): int is a varint, bytes and str are length-delimited, `Zigzag` an sint32.
"""

import os
import socket
import struct

CLIENT = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
SUCCESS, ERROR, FATAL = 0, 1, 2


class Zigzag(int):
    pass


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(*fields) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, Zigzag):
            out += varint(number << 3) + varint((value << 1) ^ (value >> 31))
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def delimited(data: bytes) -> bytes:
    return varint(len(data)) + data


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list]:
    """Field number to its values; nested messages stay bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 2:
            length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            length = {1: 8, 5: 4}[kind]
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


class Answer:
    def __init__(self, frame: bytes):
        length, at = read_varint(frame, 0)
        header = fields(frame[at : at + length])
        self.call_id = header[1][0] & 0xFFFFFFFF
        self.status = header[2][0]
        self.kind = header.get(4, [b""])[0].decode()
        self.text = header.get(5, [b""])[0].decode()
        self.code = header.get(6, [None])[0]
        self.client_id = header.get(7, [b""])[0]
        rest = frame[at + length :]
        self.body = None
        if rest:
            length, at = read_varint(rest, 0)
            self.body = rest[at : at + length]
            rest = rest[at + length :]
        self.rest = rest


class Connection:
    def __init__(self, address, user="root", auth=0, context=True, client_id=None):
        self.socket = socket.create_connection(address, 5)
        self.socket.settimeout(10)
        self.client_id = client_id or os.urandom(16)
        self.socket.sendall(b"hrpc\x09\x00" + bytes([auth]))
        if context:
            self.context(user)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def header(self, call_id, retry=-1, client_id=None, kind=2, operation=0) -> bytes:
        client_id = self.client_id if client_id is None else client_id
        return message((1, kind), (2, operation), (3, Zigzag(call_id)), (4, client_id), (5, Zigzag(retry)))

    def frame(self, *parts: bytes):
        body = b"".join(parts)
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def context(self, user="root", protocol=CLIENT):
        self.frame(delimited(self.header(-3)), delimited(message((2, message((1, user))), (3, protocol))))

    def ping(self):
        self.frame(delimited(self.header(-4)))

    def send(self, call_id, method, body=b"", protocol=CLIENT, retry=0, version=1, **header):
        request = message((1, method), (2, protocol), (3, version))
        self.frame(delimited(self.header(call_id, retry, **header)), delimited(request), delimited(body))

    def receive(self) -> Answer:
        size = struct.unpack(">i", self._exactly(4))[0]
        return Answer(self._exactly(size))

    def call(self, call_id, method, body=b"", **how) -> Answer:
        self.send(call_id, method, body, **how)
        answer = self.receive()
        assert answer.rest == b"", "nothing behind the last message"
        return answer

    def closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data
