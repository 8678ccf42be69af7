"""Wires between processes on one machine that can be cut: what comes in at a port goes on to another, until nothing
does.

A cut wire behaves as a pulled cable does: connections stay open and are silent, new ones are accepted by nobody who
answers. It needs no privileges and no second address.
"""

import asyncio
import contextlib
import threading


class Wire:
    """From one process to another, by a port of its own."""

    def __init__(self, source: str, target: str, port: int):
        self.source, self.target, self.target_port = source, target, port
        self.open = asyncio.Event()
        self.open.set()
        # The loop itself forgets who waits while nothing is read: the collector would take the task, and cut its
        # connection.
        self.carrying: set[asyncio.Task] = set()

    async def accept(self, reader, writer):
        task = asyncio.current_task()
        self.carrying.add(task)
        task.add_done_callback(self.carrying.discard)
        with contextlib.suppress(asyncio.CancelledError):  # the test is over
            await self.join(reader, writer)

    async def join(self, reader, writer):
        try:
            await self.open.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            return writer.transport.abort()
        await asyncio.gather(self.carry(reader, far_writer), self.carry(far_reader, writer))
        writer.close()
        far_writer.close()

    async def carry(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                await self.open.wait()
                writer.write(data)
                await writer.drain()
            await self.open.wait()
            writer.write_eof()  # behind what is on the way: the last answer before a connection ends arrives
        except (OSError, RuntimeError):  # the second where the other direction broke meanwhile
            writer.transport.abort()


class Wires:
    """All of a test, in one thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.all: list[Wire] = []
        self.servers = []
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def add(self, source: str, target: str, port: int, at: tuple[str, int] = ("127.0.0.1", 0)) -> int:
        """Gives the port at which `source` reaches `target`: a free one, or that of `at`."""

        async def begin():
            wire = Wire(source, target, port)
            self.all.append(wire)
            server = await asyncio.start_server(wire.accept, *at)
            self.servers.append(server)
            return server.sockets[0].getsockname()[1]

        return asyncio.run_coroutine_threadsafe(begin(), self.loop).result(10)

    def cut(self, name: str):
        """Nothing reaches `name`, and nothing comes from it."""
        self.set(lambda wire: wire.open.clear(), name)

    def mend(self, name: str):
        self.set(lambda wire: wire.open.set(), name)

    def set(self, change, name):
        async def do():
            for wire in self.all:
                if name in (wire.source, wire.target):
                    change(wire)

        asyncio.run_coroutine_threadsafe(do(), self.loop).result(10)

    def stop(self):
        async def end():
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
