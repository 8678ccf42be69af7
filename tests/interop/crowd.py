"""A crowd at the ports: clients that said hello and wait, readers and callers that never take what they asked for."""

import contextlib
import resource
import socket
import time

import content
from rawdata import CREATE, Names, Transfer
from rawrpc import Connection, message

CHECKSUM_OK = b"\x02\x08\x06"  # ClientReadStatusProto: the connection may serve the next operation


def allow(handles: int):
    """Lets this process open so many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < handles:
        raise OSError(f"a crowd needs {handles} open files, the system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, handles), hard))


def write(store, path: str, length: int):
    """One block of `length` bytes on the first datanode that the store names."""
    names = Names(store.fs, "root", holder=f"crowd {path}")
    names.create(path, replication=1, block=max(length, 1 << 20))
    located = names.add_block(path)
    chain = Transfer(located.addresses()[0])
    chain.write(located, stage=CREATE)
    data = content.make(1 << 16)
    for number, offset in enumerate(range(0, length, len(data))):
        chain.send(offset, number, data[: length - offset])
        chain.ack()
    chain.send(length, length // len(data) + 1, last=True)
    chain.ack()
    assert names.complete(path, located.extended(length=length))
    chain.close()
    return names.blocks(path)[0]


class Crowd:
    """`idle` clients, half of them at the metadata server after a call, the rest at the datanodes; `silent` ones at the
    block's first datanode alone; `stalled` readers of the block; `deaf` callers, each of which asks a hundred times for
    the names in `directory`, and takes no answer.
    """

    def __init__(self, store, located, idle=0, silent=0, stalled=0, deaf=0, directory: str = "/"):
        allow(idle + silent + stalled + deaf + 1000)
        self.open = contextlib.ExitStack()
        for number in range(idle):
            if number % 2:
                client = self.open.enter_context(Connection(store.rpc))
                client.send(0, "getFileInfo", message((1, "/")))
            else:
                self.open.enter_context(socket.create_connection(store.transfer[number // 2 % len(store.transfer)], 30))
        for _ in range(silent):
            self.open.enter_context(socket.create_connection(located.addresses()[0], 30))
        for _ in range(stalled):
            reader = Transfer(located.addresses()[0])
            self.open.callback(reader.close)
            reader.read(located)
        listing = message((1, directory), (2, b""), (3, 0))
        for _ in range(deaf):
            caller = self.open.enter_context(Connection(store.rpc))
            for number in range(100):
                caller.send(number, "getListing", listing)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open.close()


def fill(store, directory: str, count: int):
    """Empty directories with long names: their listing is as long as one can be."""
    names = Names(store.fs, "root", holder="fill")
    mode = (2, message((1, 0o755)))
    for number in range(count):
        names.call("mkdirs", (1, f"{directory}/{number:0200}"), mode, (3, 1))


def latencies(store, located, seconds: float) -> dict[str, list[float]]:
    """Seconds of each call and of each read of a whole block, one after the other, while others do what they do."""
    found = {"getFileInfo": [], "read": []}
    names = Names(store.fs, "root", holder="measuring")
    node = Transfer(located.addresses()[0])
    node.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        names.call("getFileInfo", (1, "/"))
        called = time.monotonic()
        node.read(located)
        while not node.packet().last:
            pass
        node.socket.sendall(CHECKSUM_OK)
        found["getFileInfo"].append(called - begun)
        found["read"].append(time.monotonic() - called)
    return found


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
