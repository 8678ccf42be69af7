"""Files for event loops, as `fs.open_async` gives them."""

from __future__ import annotations

from fsspec.asyn import AbstractAsyncStreamedFile

from levada import _levada
from levada.batches import Batches


class LevadaStream(AbstractAsyncStreamedFile):
    """A file open for reading or for writing, whose methods are awaited.

    What is read of it in one tick of the loop is one request. What is written gets its name when the file is closed,
    and is deleted if `async with` ends by an exception.
    """

    closed: bool

    def __init__(self, fs, path: str, mode: str, file: _levada.Reader | _levada.Staged, batches: Batches):
        self._file, self._batches = file, batches
        size = file.size if isinstance(file, _levada.Reader) else None
        super().__init__(fs, path, mode, cache_type="none", size=size)
        if isinstance(file, _levada.Reader):
            self.details = file.status

    # ── reading ──

    async def _fetch_range(self, start: int, end: int) -> bytes:
        [piece] = await self._batches.read(self._reader(), [(start, end)])
        return piece

    async def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(offset, length)`, cut at the end of the file."""
        return await self._batches.read(self._reader(), [(offset, offset + length) for offset, length in ranges])

    async def readinto(self, buffer) -> int:
        count = await self._reader().readinto_at(self.loc, buffer)
        self.loc += count
        return count

    def _reader(self) -> _levada.Reader:
        if self.closed or not isinstance(self._file, _levada.Reader):
            raise ValueError("the file is not open for reading")
        return self._file

    # ── writing ──

    async def write(self, data) -> int:
        if self.closed or not isinstance(self._file, _levada.Staged):
            raise ValueError("the file is not open for writing")
        written = await self._file.write(data)
        self.loc += written
        return written

    async def flush(self, force: bool = False) -> None:
        """Does nothing: before it is closed, nobody sees the file."""

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if isinstance(self._file, _levada.Staged):
            await self.fs._change(self._file.commit(overwrite=self.mode == "wb"))

    async def __aexit__(self, kind, error, trace) -> None:
        if kind is not None and isinstance(self._file, _levada.Staged) and not self.closed:
            self.closed = True
            await self._file.discard()
        await self.close()

    def __del__(self) -> None:
        """Nobody could await `close` here. What was written and not closed is deleted with its `Staged`."""
