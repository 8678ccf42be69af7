"""One file of fsspec: open for reading, or for writing in one stream."""

from __future__ import annotations

import errno
import sys
from threading import get_ident
from typing import Any

from fsspec.spec import AbstractBufferedFile

from levada import _levada
from levada.ahead import save_later
from levada.errors import os_error
from levada.statistics import Statistics

# The file system's profile.
_OF_FS: Any = object()
# Threads of one file that have sought and not read. A guess, far above what any tool has.
_SOUGHT_COUNT_MAX = 1024


class LevadaFile(AbstractBufferedFile):
    """A file open for reading, or for writing in one stream.

    Nothing is read ahead unless the store is far away, or `cache_type` asks for it. What is written gets its name when
    the file is closed, or when the transaction ends, and is deleted if the block that `with` opened it for ends by an
    exception. With `staged=False`, and in mode `ab`, it has its name from the beginning, and `flush` shows to readers
    what was written so far.
    """

    closed: bool
    _details: dict[str, Any] | None

    def __init__(
        self, fs, path, mode="rb", autocommit=True, cache_type="none", staged=True, profile=_OF_FS, **options: Any
    ):
        self._writer: _levada.Staged | _levada.Writer | None = None
        self._is_ahead = False
        # Where each thread has sought since it read last.
        self._sought: dict[int, int] = {}
        client = fs.client
        if mode == "rb":
            profile = fs._profile if profile is _OF_FS else profile
            opened = fs._open_reader(path, profile)
            self._reader = fs._ahead_of(path, opened, profile)
            self._is_ahead = self._reader is not opened
            options["size"] = self._reader.size
        elif mode == "ab":
            if not autocommit:
                raise ValueError("a transaction cannot append to a file: that is seen before it ends")
            appends = fs.exists(path)
            self._writer = fs._change_now(
                client.append(path) if appends else client.create(path, **fs._options())
            )
        elif mode in ("wb", "xb"):
            # Before all is sent.
            if mode == "xb" and fs.exists(path):
                raise os_error(errno.EEXIST, path)
            if staged or not autocommit:
                self._writer = client.stage(path, **fs._options()).wait()
            else:
                self._writer = fs._change_now(client.create(path, overwrite=mode == "wb", **fs._options()))
        else:
            raise ValueError(f"mode {mode!r}: files are opened by rb, wb, xb or ab")
        super().__init__(fs, path, mode, autocommit=autocommit, cache_type=cache_type, **options)
        if self._writer:
            self.loc = self._writer.position

    @property
    def details(self) -> dict[str, Any]:
        """What `info` says of the file; of one that is read, as of its opening."""
        if self._details is None:
            known = self._reader.status if self.mode == "rb" else None
            self._details = {**known} if known else self.fs.info(self.path)
        return self._details

    @details.setter
    def details(self, value) -> None:
        self._details = value

    # ── reading ──

    @property
    def statistics(self) -> Statistics | None:
        """How well reading ahead goes; `None`: the file is read as it is asked for."""
        found = self._reader.statistics if self.mode == "rb" else None
        return None if found is None else Statistics.of([found])

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._reader.read_at(start, end - start).wait()

    def seek(self, loc, whence=0) -> int:
        if whence == 1:
            loc, whence = self.tell() + loc, 0
        position = super().seek(loc, whence)
        if len(self._sought) >= _SOUGHT_COUNT_MAX:
            self._sought.clear()
        self._sought[get_ident()] = position
        return position

    def tell(self) -> int:
        return self._sought.get(get_ident(), self.loc)

    def _pass(self, length: int) -> tuple[int, int]:
        """Where a read begins and ends. The next one begins there, also if this one is still waited for.

        DuckDB seeks and reads on several threads without a lock. So a read begins where its thread has sought, if it
        has since it read last; else where the last one ended, whoever made it.
        """
        start = self._sought.pop(get_ident(), None)
        if start is None:
            # The file goes from one thread to another: what any has sought before is not its place any more.
            self._sought.clear()
            start = self.loc
        end = self.size if length < 0 else min(start + length, self.size)
        self.loc = max(start, end)
        return start, self.loc

    def read(self, length=-1) -> bytes:
        self._check_reading()
        start, end = self._pass(-1 if length is None else int(length))
        try:
            return self.cache._fetch(start, end) if start < end else b""
        except BaseException:
            self._stay(start, end)
            raise

    def readinto(self, buffer) -> int:
        """Into the buffer itself, past any cache."""
        self._check_reading()
        start, end = self._pass(memoryview(buffer).nbytes)
        try:
            return self._reader.readinto_at(start, buffer).wait()
        except BaseException:
            self._stay(start, end)
            raise

    def _stay(self, start: int, end: int) -> None:
        """A read failed, and moves nobody on."""
        if self.loc == end:
            self.loc = start

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(offset, length)`, cut at the end of the file: one request to each datanode."""
        self._check_reading()
        return self._reader.read_ranges(ranges).wait()

    def readinto_ranges(self, ranges: list[tuple[int, Any]]) -> None:
        """As `read_ranges`, into the buffer of each `(offset, buffer)`. All must lie in the file."""
        self._check_reading()
        self._reader.readinto_ranges(ranges).wait()

    def _check_reading(self) -> None:
        if self.mode != "rb" or self.closed:
            raise ValueError("the file is not open for reading")

    # ── writing ──

    def write(self, data) -> int:
        if self._writer is None or self.closed:
            raise ValueError("the file is not open for writing")
        written = self._writer.write(data).wait()
        self.loc += written
        return written

    def flush(self, force: bool = False) -> None:
        """New readers see all bytes so far, if the file has its name."""
        if isinstance(self._writer, _levada.Writer) and not self.closed:
            self.fs._change_now(self._writer.flush())

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._is_ahead and not sys.is_finalizing():
            save_later(self._reader)
        if isinstance(self._writer, _levada.Writer):
            self.fs._change_now(self._writer.close())
        elif self._writer is not None and self.autocommit:
            self.commit()

    def __exit__(self, kind, error, trace) -> None:
        if kind is not None and isinstance(self._writer, _levada.Staged) and not self.closed:
            self.closed = True
            if self.autocommit:
                self.discard()
        self.close()

    def commit(self) -> None:
        """The file gets its name."""
        if isinstance(self._writer, _levada.Staged):
            self.fs._change_now(self._writer.commit(overwrite=self.mode == "wb"))

    def discard(self) -> None:
        """Nothing is left of the file, if it has no name yet."""
        if isinstance(self._writer, _levada.Staged):
            self._writer.discard().wait()
