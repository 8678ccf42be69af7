"""The file system of fsspec.

Paths are those of the store, absolute. What is asked for together travels together (`batches`).
"""

from __future__ import annotations

import asyncio
import errno
import getpass
import os
import re
import time
import warnings
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fsspec.asyn import AsyncFileSystem, sync

from levada import _levada
from levada.ahead import FAR_S, AheadFiles
from levada.batches import Batches, Range
from levada.errors import os_error
from levada.file import LevadaFile
from levada.statistics import Statistics
from levada.streams import LevadaStream

# Of one write to the store, and of one read while a file is copied: a guess, several packets of 64 KiB.
PIECE_LEN = 4 << 20
# What a store far away said counts for so many round trips: as many as a reader takes to look at a file, open it twice
# and read its footer. On a local network that is a millisecond.
VALID_ROUND_TRIPS = 8
# Files that are read by ranges at a time, whose names are remembered. A guess.
PARTS_COUNT_MAX = 64
# How an address begins (RFC 3986): its scheme.
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# The longest beginning by which a format is known: Arrow's.
MAGIC_LEN = 8

# What fsspec takes for each file system, itself or in what it makes of it.
OPTIONS_OF_FSSPEC = frozenset(
    "asynchronous loop batch_size use_listings_cache listings_expiry_time max_paths skip_instance_cache add_docs "
    "add_aliases".split()
)

_T = TypeVar("_T")


class LevadaFileSystem(AsyncFileSystem):
    """A Levada store, or any HDFS, as one user sees it.

    `host`: a host, `host:port`, or several of those with commas; else what LEVADA_URL says, or Hadoop's configuration.
    `port`: of `host`, 8020 if nothing says another.
    `user`: who acts; else HADOOP_PROXY_USER, HADOOP_USER_NAME where nobody proves who he is, the holder of the Kerberos
    ticket, or the user of this process.
    `replication`, `block_size`: of new files; else what the store proposes.
    `gateway`: `host:port` of one through which all servers are reached; else LEVADA_GATEWAY, if that is set.
    `ahead`: what will be read next is fetched before, where the store is far away.
    `profile`: whose reads of earlier runs say what that is: `auto`, of the files of a directory; a name; or `None`.
    `round_trip`: how far away it is, in seconds; else that is measured.
    `local_reads`: by descriptors, where a datanode is on this machine; else over TCP.
    """

    protocol = ("levada",)
    root_marker = "/"
    # Names begin with it: `/data/a`.
    sep = "/"

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        user: str | None = None,
        replication: int | None = None,
        block_size: int | None = None,
        gateway: str | None = None,
        ahead: bool = True,
        profile: str | None = "auto",
        round_trip: float | None = None,
        local_reads: bool = True,
        **options: Any,
    ):
        super().__init__(**options)
        # Not refused: what one file system has for an option is often given to all.
        if unknown := sorted(options.keys() - OPTIONS_OF_FSSPEC):
            warnings.warn(f"LevadaFileSystem has no option {', '.join(unknown)}", stacklevel=2)
        self.replication, self.block_size = replication, block_size
        gateway = gateway or os.environ.get("LEVADA_GATEWAY") or None
        self.client = _levada.Client(
            _url(host, port), user or _user(), gateway=gateway, round_trip=round_trip, local_reads=local_reads
        )
        self._ahead, self._profile = ahead, profile
        self._batches = Batches(self._reader_of_parts)
        # Files far away that were opened a moment ago, and when, by path.
        self._opened: dict[str, tuple[float, _levada.Reader]] = {}
        # Changes by this file system that have ended.
        self._changes = 0
        self._ahead_files = AheadFiles()
        # Files far away of which parts were read by their names, those read last at the end; and whether their
        # beginnings are among these.
        self._in_parts: dict[str, bool] = {}

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        # Names may have "://" in them, too: an address begins with its scheme.
        if address := ADDRESS.match(path):
            path = path[address.end() :].partition("/")[2]
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        parts = urlsplit(path)
        found = {"host": parts.netloc.rpartition("@")[2] or None, "user": parts.username}
        return {name: value for name, value in found.items() if value}

    def unstrip_protocol(self, name: str) -> str:
        return f"levada://{self.client.authority}{self._strip_protocol(name)}"

    @property
    def fsid(self) -> str:
        return f"levada-{self.client.authority}"

    # ── far away ──

    @property
    def _is_far(self) -> bool:
        return self.client.round_trip >= FAR_S

    def _opened_lately(self, path: str) -> _levada.Reader | None:
        """Of a store far away, where asking again takes as long as all that is done meanwhile."""
        since, reader = self._opened.get(path, (0.0, None))
        return reader if time.monotonic() - since < VALID_ROUND_TRIPS * self.client.round_trip else None

    def _note_opened(self, path: str, asked: tuple[float, int], reader: _levada.Reader) -> None:
        since, changes = asked
        # What was told before a change ended may be of the time before it.
        if self._is_far and changes == self._changes:
            self._opened = {known: one for known, one in self._opened.items() if self._opened_lately(known)}
            self._opened[path] = since, reader

    def _asking(self) -> tuple[float, int]:
        return time.monotonic(), self._changes

    def _changed(self) -> None:
        """By this file system: what was told before does not count any more."""
        self._changes += 1
        self._opened = {}

    def invalidate_cache(self, path: str | None = None) -> None:
        """What was told before does not count any more."""
        self._changed()
        super().invalidate_cache(path)

    async def _change(self, call: _levada.Call[_T]) -> _T:
        try:
            return await call
        finally:
            self._changed()

    def _change_now(self, call: _levada.Call[_T]) -> _T:
        try:
            return call.wait()
        finally:
            self._changed()

    def _open_reader(self, path: str, profile: str | None) -> _levada.Reader:
        reader = self._opened_lately(path)
        if reader is None:
            asked = self._asking()
            self._prepare(path, profile)
            reader = self.client.open(path, status=True).wait()
            self._note_opened(path, asked, reader)
        return reader

    def _prepare(self, path: str, profile: str | None) -> None:
        """What earlier runs have told is of use before anything is known of the file."""
        if self._ahead and (self._is_far or not self.client.round_trip):
            self.client.prepare(path, profile)

    def _ahead_of(self, path: str, reader: _levada.Reader, profile: str | None) -> _levada.Reader:
        """The file as it is to be read: from far away, by its cache."""
        return self._ahead_files.of(path, reader, profile) if self._ahead and self._is_far else reader

    @property
    def statistics(self) -> Statistics:
        """How well reading ahead goes, of all files so far."""
        return self._ahead_files.statistics

    # ── names ──

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if (opened := self._opened_lately(path)) and opened.status:
            return {**opened.status}
        if not self._is_far and self.client.round_trip:
            return {**await self.client.status(path)}
        # Who looks at a file far away will open it: that is asked in the same flight.
        asked = self._asking()
        self._prepare(path, self._profile)
        status, reader = await asyncio.gather(
            self.client.status(path), self.client.open(path, status=True), return_exceptions=True
        )
        if isinstance(status, BaseException):
            raise status
        if not isinstance(reader, BaseException):
            self._note_opened(path, asked, reader)
        return {**status}

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list:
        entries = await self.client.list(self._strip_protocol(path))
        return entries if detail else [entry["name"] for entry in entries]

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if await self._exists(path):
            raise os_error(errno.EEXIST, path)
        await self._change(self.client.mkdir(path, parents=create_parents))

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and await self._exists(path):
            raise os_error(errno.EEXIST, path)
        await self._change(self.client.mkdir(path, parents=True))

    async def _rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if (await self._info(path))["type"] != "directory":
            raise os_error(errno.ENOTDIR, path)
        await self._change(self.client.delete(path))

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        sync(self.loop, self._rmdir, path)

    async def _rm_file(self, path: str, **_: Any) -> None:
        path = self._strip_protocol(path)
        if not await self._change(self.client.delete(path)):
            raise os_error(errno.ENOENT, path)

    async def _rm(self, path, recursive: bool = False, batch_size: int | None = None, **_: Any) -> None:
        # A directory goes in one call, whatever is in it.
        for one in await self._expand_path(path, recursive=False):
            if not await self._change(self.client.delete(one, recursive=recursive)):
                raise os_error(errno.ENOENT, one)

    async def _mv_file(self, path1: str, path2: str) -> None:
        await self._change(self.client.rename(self._strip_protocol(path1), self._strip_protocol(path2), overwrite=True))

    def mv(self, path1, path2, recursive=False, maxdepth=None, **options: Any) -> None:
        """Moves a file or a directory: no byte of it is moved. Into `path2`, if that is a directory."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path2):
            path2 = f"{path2.rstrip('/')}/{path1.rpartition('/')[2]}"
        sync(self.loop, self._mv_file, path1, path2)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if (await self._info(path1))["type"] == "directory":
            await self._change(self.client.mkdir(path2, parents=True))
            return
        reader = await self.client.open(path1)
        async with self._staged(path2, reader.size) as staged:
            for offset in range(0, reader.size, PIECE_LEN):
                await staged.write(await reader.read_at(offset, PIECE_LEN))

    def created(self, path: str) -> datetime:
        """The store remembers changes alone."""
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def ukey(self, path: str) -> str:
        info = self.info(path)
        return f"{info['id']:x}-{info['mtime']}-{info['size']:x}"

    def checksum(self, path: str) -> int:
        return int(self.ukey(path).encode().hex(), 16)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")
        else:
            now = datetime.now(timezone.utc).timestamp()
            self._change_now(self.client.set_times(path, modified=now, accessed=now))

    # ── bytes ──

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        [piece] = await self._read_parts(self._strip_protocol(path), [(start, end)])
        return piece

    def _read_parts(self, path: str, ranges: list[Range]) -> Coroutine[Any, Any, list[bytes]]:
        # In the batch of this tick, whenever it is awaited.
        return self._noted(path, ranges, self._batches.read(path, ranges))

    async def _noted(self, path: str, ranges: list[Range], read: Coroutine[Any, Any, list[bytes]]) -> list[bytes]:
        pieces = await read
        # Who reads part after part by names, as uproot does, is followed from the second one on.
        if self._is_far and any(one != (None, None) for one in ranges):
            was_begun = self._in_parts.pop(path, False)
            self._in_parts[path] = was_begun or any(not start for start, _ in ranges)
            if len(self._in_parts) > PARTS_COUNT_MAX:
                del self._in_parts[next(iter(self._in_parts))]
        return pieces

    async def _reader_of_parts(self, path: str) -> _levada.Reader:
        """The file of this name, as it is to be read by ranges."""
        if not (self._ahead and self._is_far and path in self._in_parts):
            return await self.client.open(path)
        reader = self._opened_lately(path)
        if reader is None:
            asked = self._asking()
            reader = await self.client.open(path, status=True)
            self._note_opened(path, asked, reader)
        reader = await self._ahead_files.of_path(path, reader, self._profile)
        if self._in_parts.get(path):
            # What its format is says the beginning, which was read before the cache was there.
            self._in_parts[path] = False
            reader.read_at(0, MAGIC_LEN).start()
        return reader

    async def _cat_ranges(
        self, paths, starts, ends, max_gap=None, batch_size=None, on_error="return", **_: Any
    ) -> list:
        paths = [self._strip_protocol(path) for path in paths]
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("as many paths, starts and ends are needed")
        of_path: dict[str, list[int]] = {}
        for place, path in enumerate(paths):
            of_path.setdefault(path, []).append(place)
        reads = [
            self._read_parts(path, [(starts[place], ends[place]) for place in places])
            for path, places in of_path.items()
        ]
        found: list = [None] * len(paths)
        for places, pieces in zip(of_path.values(), await asyncio.gather(*reads, return_exceptions=True)):
            if isinstance(pieces, BaseException) and (on_error == "raise" or not isinstance(pieces, Exception)):
                raise pieces
            for number, place in enumerate(places):
                found[place] = pieces if isinstance(pieces, Exception) else pieces[number]
        return found

    async def _pipe_file(self, path: str, value, mode: str = "overwrite", **_: Any) -> None:
        async with self._staged(self._strip_protocol(path), len(value), overwrite=mode != "create") as staged:
            await staged.write(value)

    async def _put_file(self, lpath: str, rpath: str, mode: str = "overwrite", callback=None, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            await self._change(self.client.mkdir(rpath, parents=True))
            return
        size = os.path.getsize(lpath)
        if callback:
            callback.set_size(size)
        # Before all is sent.
        if mode == "create" and await self._exists(rpath):
            raise os_error(errno.EEXIST, rpath)
        with open(lpath, "rb") as local:
            async with self._staged(rpath, size, overwrite=mode != "create") as staged:
                while piece := local.read(PIECE_LEN):
                    await staged.write(piece)
                    if callback:
                        callback.relative_update(len(piece))

    async def _get_file(self, rpath: str, lpath: str, callback=None, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if await self._isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        reader = await self.client.open(rpath)
        if callback:
            callback.set_size(reader.size)
        if parent := os.path.dirname(lpath):
            os.makedirs(parent, exist_ok=True)
        with open(lpath, "wb") as local:
            for offset in range(0, reader.size, PIECE_LEN):
                piece = await reader.read_at(offset, PIECE_LEN)
                local.write(piece)
                if callback:
                    callback.relative_update(len(piece))

    def _options(self, size: int | None = None) -> dict[str, Any]:
        return {"replication": self.replication, "block_size": self.block_size, "size": size}

    @asynccontextmanager
    async def _staged(self, path: str, size: int | None, overwrite: bool = True) -> AsyncIterator[_levada.Staged]:
        """A file that gets its name at the end, if all went well."""
        staged = await self._change(self.client.stage(path, **self._options(size)))
        try:
            yield staged
        except BaseException:
            await staged.discard()
            raise
        await self._change(staged.commit(overwrite=overwrite))

    def _open(
        self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **options: Any
    ) -> LevadaFile:
        return LevadaFile(self, self._strip_protocol(path), mode, autocommit=autocommit, **options)

    async def open_async(self, path: str, mode: str = "rb", **_: Any) -> LevadaStream:
        path = self._strip_protocol(path)
        if mode == "rb":
            reader = self._opened_lately(path) or await self.client.open(path, status=True)
            return LevadaStream(self, path, mode, reader, self._batches)
        if mode not in ("wb", "xb"):
            raise ValueError(f"mode {mode!r}: streams are opened by rb, wb or xb")
        # Before all is sent.
        if mode == "xb" and await self._exists(path):
            raise os_error(errno.EEXIST, path)
        staged = await self._change(self.client.stage(path, **self._options()))
        return LevadaStream(self, path, mode, staged, self._batches)


def _url(host: str | None, port: int | None) -> str:
    if not host:
        found = os.environ.get("LEVADA_URL") or _levada.default_url()
        if not found:
            raise ValueError(
                "no store is named: give host=, open levada://host:8020/path, or set LEVADA_URL=hdfs://host:8020"
            )
        return found
    return f"hdfs://{host}:{port}" if port and ":" not in host else f"hdfs://{host}"


def _user() -> str:
    return _levada.acting_user() or getpass.getuser()
