"""Bytes to any port, from somebody who is no client of it."""

import socket

import content
from store import SUPERUSER


def send(address, data: bytes, wait: float = 0.05) -> bytes:
    """What came back until the other side closed, or was silent for so long."""
    got = b""
    with socket.create_connection(address, 10) as s:
        s.settimeout(wait)
        try:
            s.sendall(data)
            while part := s.recv(65536):
                got += part
        except (TimeoutError, ConnectionError):
            pass
    return got


def left_no_mark(victim, java, memory_max: float):
    """The store serves others, as the same process, in bounded memory."""
    fs = java.mount(victim.fs, SUPERUSER)
    data = content.make(300_000)
    fs.write("/f", data, overwrite=True)
    assert fs.read("/f") == data
    fs.unmount()
    assert victim.process.poll() is None
    assert victim.resident() < memory_max, victim.resident()
    assert "panicked" not in victim.log()
