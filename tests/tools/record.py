"""A TCP proxy between an HDFS client and real servers that keeps every byte of both directions.

Control connections name the datanodes' ports in their answers (DatanodeIDProto fields 4 and 6). The
recorder replaces those varints by the ports of its own listeners, which take as many bytes, so that
data connections come through here as well and no frame changes its length; in requests it turns them back.
"""

import socket
import threading


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Client(bytearray):
    """Bytes of the direction client to server."""


class Stream:
    """One connection: what the client sent and what it got."""

    def __init__(self, name: str):
        self.name = name
        self.client = Client()
        self.server = bytearray()


class Recorder:
    """Listeners in front of named servers; `streams` holds the connections in order of arrival."""

    def __init__(self):
        self.streams: list[Stream] = []
        self.ports: dict[int, int] = {}
        self.lock = threading.Lock()

    def listen(self, name: str, upstream: int) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        self.ports[upstream] = port
        threading.Thread(target=self._accept, args=(listener, name, upstream), daemon=True).start()
        return port

    def take(self) -> list[Stream]:
        with self.lock:
            taken, self.streams = self.streams, []
        return taken

    def _accept(self, listener, name, upstream):
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", upstream))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = Stream(name)
            with self.lock:
                self.streams.append(stream)
            threading.Thread(target=self._pump, args=(client, server, stream.client, name), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, stream.server, name), daemon=True).start()

    def _pump(self, source, sink, keep, name):
        """Carries one direction. What the client sees is kept: its own bytes, and answers with our ports."""
        from_client = isinstance(keep, Client)
        preamble = 7 if from_client else 0
        waiting = bytearray()
        try:
            while data := source.recv(1 << 16):
                if name != "rpc":
                    keep += data
                    sink.sendall(data)
                    continue
                waiting += data
                if preamble and len(waiting) >= preamble:
                    keep += waiting[:preamble]
                    sink.sendall(waiting[:preamble])
                    del waiting[:preamble]
                    preamble = 0
                # Whole frames only: a port may be cut by the end of a segment.
                while not preamble and len(waiting) >= 4 and len(waiting) >= 4 + int.from_bytes(waiting[:4], "big"):
                    end = 4 + int.from_bytes(waiting[:4], "big")
                    seen = bytes(waiting[:end])
                    other = self._rewrite(seen, back=from_client)
                    keep += seen if from_client else other
                    sink.sendall(other)
                    del waiting[:end]
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _rewrite(self, frame: bytes, back: bool) -> bytes:
        for upstream, own in self.ports.items():
            old, new = varint(upstream), varint(own)
            assert len(old) == len(new), "take upstream and own ports of the same varint length"
            if back:
                old, new = new, old
            for tag in (b"\x20", b"\x30"):  # DatanodeIDProto.xferPort, .ipcPort
                frame = frame.replace(tag + old, tag + new)
        return frame
