"""Sends as many bytes as it is asked for: what TCP itself takes. `sender.py ADDRESS PORT`; a request is eight bytes for
the count, big-endian, and as many more to be taken upwards as the next eight say.
"""

import socket
import sys
import threading

PIECE = bytes(1 << 20)


def exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count > 0:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head = exactly(connection, 16)
            down, up = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:], "big")
            exactly(connection, up)
            while down > 0:
                down -= connection.send(memoryview(PIECE)[: min(down, len(PIECE))])
    except (EOFError, OSError):
        connection.close()


def main() -> None:
    address, port = sys.argv[1:]
    listener = socket.create_server((address, int(port)), backlog=256)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
