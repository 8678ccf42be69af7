"""Reads that are asked for together travel together.

    tick of the loop │ read(f, …)  read(f, …)  read(g, …) │ one opening and one vectored read of f, one of each of g
                     └── tasks that run one after another ┘

Whoever waits gets its own bytes or its own error, and may be cancelled: what is read for the others goes on.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from levada import _levada

# A longer range is read by itself: nobody is to wait for it who asked for a few bytes. What the client has as one piece
# of a vectored read, too.
JOINED_LEN_MAX = 16 << 20

# First byte and the one behind the last, as in a slice: `None` and negative places count from the file's ends.
Range = tuple[int | None, int | None]
_Key = tuple[asyncio.AbstractEventLoop, str | _levada.Reader]


class Batches:
    """The reads of one file system. `opened`: the file of a path, by which it is to be read."""

    def __init__(self, opened: Callable[[str], Awaitable[_levada.Reader]]):
        self._opened = opened
        # What is asked for in this tick.
        self._gathering: dict[_Key, _Batch] = {}

    def read(self, file: str | _levada.Reader, ranges: Sequence[Range]) -> Coroutine[Any, Any, list[bytes]]:
        """The bytes of each range, cut at the end of the file: of a path as it is now, or of a file that is open.

        It is in the batch of this tick even if what is returned is awaited later, as by a task that is yet to start.
        """
        loop = asyncio.get_running_loop()
        key = loop, file
        batch = self._gathering.get(key)
        if batch is None:
            batch = self._gathering[key] = _Batch(self._opened, file)
            # Behind all that is ready to run now.
            loop.call_soon(self._begin, key)
        return batch.add(ranges)

    def _begin(self, key: _Key) -> None:
        self._gathering.pop(key).begin()


class _Read:
    """What one caller asked for."""

    def __init__(self, ranges: Sequence[Range]):
        self.ranges = ranges
        self.future: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()

    def give(self, pieces: list[bytes]) -> None:
        if not self.future.done():
            self.future.set_result(pieces)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            # Each caller adds its own trace to it.
            self.future.set_exception(copy.copy(error))


class _Batch:
    """The reads of one file in one tick."""

    def __init__(self, opened: Callable[[str], Awaitable[_levada.Reader]], file: str | _levada.Reader):
        self._opened, self._file = opened, file
        self._reads: list[_Read] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, ranges: Sequence[Range]) -> Coroutine[Any, Any, list[bytes]]:
        read = _Read(ranges)
        self._reads.append(read)
        return self._wait(read)

    async def _wait(self, read: _Read) -> list[bytes]:
        try:
            return await read.future
        except asyncio.CancelledError:
            if self._task and all(read.future.done() for read in self._reads):
                self._task.cancel()
            raise

    def begin(self) -> None:
        if any(not read.future.done() for read in self._reads):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._read_all([read for read in self._reads if not read.future.done()])
        except asyncio.CancelledError:
            # With the last who waited, or with the loop.
            for read in self._reads:
                read.future.cancel()
            raise

    async def _read_all(self, reads: list[_Read]) -> None:
        try:
            reader = await self._opened(self._file) if isinstance(self._file, str) else self._file
        except Exception as error:
            for read in reads:
                read.fail(error)
            return
        joined: list[_Asked] = []
        alone: list[_Asked] = []
        for read in reads:
            try:
                places = [_place(one, reader.size) for one in read.ranges]
            except TypeError as error:
                read.fail(error)
                continue
            is_short = sum(length for _, length in places) <= JOINED_LEN_MAX
            (joined if is_short else alone).append((read, places))
        await _together([_read_joined(reader, joined), *(_read_alone(reader, *asked) for asked in alone)])


# A read, and the offset and length of each of its ranges.
_Asked = tuple[_Read, list[tuple[int, int]]]


async def _read_joined(reader: _levada.Reader, reads: list[_Asked]) -> None:
    if len(reads) > 1:
        try:
            pieces = iter(await reader.read_ranges([place for _, places in reads for place in places]))
        except Exception:
            # One of them may be all that cannot be read: the others are not to fail with it.
            pass
        else:
            for read, places in reads:
                read.give([next(pieces) for _ in places])
            return
    await _together([_read_alone(reader, *asked) for asked in reads])


async def _together(works: list[Coroutine[Any, Any, None]]) -> None:
    # Most often there is one, for which a task would cost more than all else here.
    if len(works) == 1:
        await works[0]
    else:
        await asyncio.gather(*works)


async def _read_alone(reader: _levada.Reader, read: _Read, places: list[tuple[int, int]]) -> None:
    try:
        if len(places) == 1:
            [(offset, length)] = places
            read.give([await reader.read_at(offset, length)])
        else:
            read.give(await reader.read_ranges(places))
    except Exception as error:
        read.fail(error)


def _place(one: Range, size: int) -> tuple[int, int]:
    """Offset and length."""
    start, end, _ = slice(*one).indices(size)
    return start, max(0, end - start)
