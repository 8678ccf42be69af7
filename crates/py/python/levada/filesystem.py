"""The file system of fsspec.

Paths are those of the store, absolute. Whatever fsspec asks for together (`cat_ranges`) travels as one request a file.
"""

from __future__ import annotations

import asyncio
import errno
import getpass
import os
import secrets
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.spec import AbstractBufferedFile

from levada import _levada

# Of one write to the store, and of one read while a file is copied: a guess, several packets of 64 KiB.
PIECE_LEN = 4 << 20


class LevadaFileSystem(AsyncFileSystem):
    """A Levada store, or any HDFS, as one user sees it.

    `host`: a host, `host:port`, or several of those with commas; else what Hadoop's configuration names.
    `port`: of `host`, 8020 if nothing says another.
    `user`: who acts; else HADOOP_USER_NAME, the holder of the Kerberos ticket, or the user of this process.
    `replication`, `block_size`: of new files; else what the store proposes.
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
        **options: Any,
    ):
        super().__init__(**options)
        self.replication, self.block_size = replication, block_size
        self.client = _levada.Client(_url(host, port), user or _user())

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        if "://" in path:
            path = path.split("://", 1)[1].partition("/")[2]
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

    # ── names ──

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        return await self.client.status(self._strip_protocol(path))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list:
        entries = await self.client.list(self._strip_protocol(path))
        return entries if detail else [entry["name"] for entry in entries]

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if await self._exists(path):
            raise _error(errno.EEXIST, path)
        await self.client.mkdir(path, parents=create_parents)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and await self._exists(path):
            raise _error(errno.EEXIST, path)
        await self.client.mkdir(path, parents=True)

    async def _rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if (await self._info(path))["type"] != "directory":
            raise _error(errno.ENOTDIR, path)
        await self.client.delete(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        sync(self.loop, self._rmdir, path)

    async def _rm_file(self, path: str, **_: Any) -> None:
        path = self._strip_protocol(path)
        if not await self.client.delete(path):
            raise _error(errno.ENOENT, path)

    async def _rm(self, path, recursive: bool = False, batch_size: int | None = None, **_: Any) -> None:
        # A directory goes in one call, whatever is in it.
        for one in await self._expand_path(path, recursive=False):
            if not await self.client.delete(one, recursive=recursive):
                raise _error(errno.ENOENT, one)

    async def _mv_file(self, path1: str, path2: str) -> None:
        await self.client.rename(self._strip_protocol(path1), self._strip_protocol(path2), overwrite=True)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **options: Any) -> None:
        """Moves a file or a directory: no byte of it is moved. Into `path2`, if that is a directory."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path2):
            path2 = f"{path2.rstrip('/')}/{path1.rpartition('/')[2]}"
        sync(self.loop, self._mv_file, path1, path2)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if (await self._info(path1))["type"] == "directory":
            await self.client.mkdir(path2, parents=True)
            return
        reader = await self.client.open(path1)
        async with _Staged(self, path2, reader.size) as writer:
            for offset in range(0, reader.size, PIECE_LEN):
                await writer.write(await reader.read_at(offset, PIECE_LEN))

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
            self.client.set_times(path, modified=now, accessed=now).wait()

    # ── bytes ──

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        reader = await self.client.open(self._strip_protocol(path))
        offset, length = _range(start, end, reader.size)
        return await reader.read_at(offset, length)

    async def _cat_ranges(self, paths, starts, ends, max_gap=None, batch_size=None, on_error="return", **_: Any) -> list:
        paths = [self._strip_protocol(path) for path in paths]
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("as many paths, starts and ends are needed")
        of_path: dict[str, list[int]] = {}
        for place, path in enumerate(paths):
            of_path.setdefault(path, []).append(place)
        found: list = [None] * len(paths)

        async def read(path: str, places: list[int]) -> None:
            try:
                reader = await self.client.open(path)
                ranges = [_range(starts[place], ends[place], reader.size) for place in places]
                pieces = await reader.read_ranges(ranges)
            except Exception as error:
                if on_error == "raise":
                    raise
                pieces = [error] * len(places)
            for place, piece in zip(places, pieces):
                found[place] = piece

        await asyncio.gather(*(read(path, places) for path, places in of_path.items()))
        return found

    async def _pipe_file(self, path: str, value, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        if mode == "create":
            await self._write(await self.client.create(path, **self._options(len(value))), value)
            return
        async with _Staged(self, path, len(value)) as writer:
            await writer.write(value)

    async def _put_file(self, lpath: str, rpath: str, mode: str = "overwrite", callback=None, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            await self.client.mkdir(rpath, parents=True)
            return
        size = os.path.getsize(lpath)
        if callback:
            callback.set_size(size)
        if mode == "create" and await self._exists(rpath):
            raise _error(errno.EEXIST, rpath)
        with open(lpath, "rb") as local:
            async with _Staged(self, rpath, size) as writer:
                while piece := local.read(PIECE_LEN):
                    await writer.write(piece)
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

    @staticmethod
    async def _write(writer, value) -> None:
        try:
            await writer.write(value)
        except BaseException:
            await writer.abandon()
            raise
        await writer.close()

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **options: Any) -> LevadaFile:
        return LevadaFile(self, self._strip_protocol(path), mode, autocommit=autocommit, **options)


class _Staged:
    """A file that gets its name when it is whole: readers see the old bytes or the new ones."""

    def __init__(self, fs: LevadaFileSystem, path: str, size: int | None):
        self.fs, self.path, self.size = fs, path, size
        parent, _, name = path.rpartition("/")
        # As the tools of HDFS name what is not whole yet.
        self.hidden = f"{parent}/.levada-{secrets.token_hex(8)}._COPYING_"

    async def __aenter__(self):
        self.writer = await self.fs.client.create(self.hidden, **self.fs._options(self.size))
        return self.writer

    async def __aexit__(self, kind, error, trace) -> None:
        try:
            if kind is None:
                await self.writer.close()
                await self.fs.client.rename(self.hidden, self.path, overwrite=True)
                return
        except BaseException:
            await self.fs.client.delete(self.hidden)
            raise
        await self.writer.abandon()
        await self.fs.client.delete(self.hidden)


class LevadaFile(AbstractBufferedFile):
    """A file open for reading, or for writing in one stream.

    Nothing is read ahead unless `cache_type` asks for it. A file that is written has its name at once, but inside of a
    transaction: then it has it when that ends.
    """

    def __init__(self, fs, path, mode="rb", autocommit=True, cache_type="none", **options: Any):
        self._writer = self._hidden = None
        client = fs.client
        if mode == "rb":
            self._reader = client.open(path).wait()
            options["size"] = self._reader.size
        elif mode == "ab" and fs.exists(path):
            self._writer = client.append(path).wait()
        elif mode in ("wb", "ab", "xb"):
            if not autocommit:
                self._hidden = _Staged(fs, path, None).hidden
            # A small file meets what is in its way when it is closed; who asks for a new one is told before.
            if mode == "xb" and fs.exists(path):
                raise _error(errno.EEXIST, path)
            self._writer = client.create(self._hidden or path, overwrite=mode == "wb", **fs._options()).wait()
        else:
            raise ValueError(f"mode {mode!r}: files are opened by rb, wb, xb or ab")
        super().__init__(fs, path, mode, autocommit=autocommit, cache_type=cache_type, **options)
        if self._writer:
            self.loc = self._writer.position

    @property
    def details(self) -> dict[str, Any]:
        if self._details is None:
            self._details = self.fs.info(self.path)
        return self._details

    @details.setter
    def details(self, value) -> None:
        self._details = value

    # ── reading ──

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._reader.read_at(start, end - start).wait()

    def readinto(self, buffer) -> int:
        if self.mode != "rb":
            raise ValueError("the file is not open for reading")
        count = self._reader.readinto_at(self.loc, buffer).wait()
        self.loc += count
        return count

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(offset, length)`: one request to each datanode."""
        return self._reader.read_ranges(ranges).wait()

    # ── writing ──

    def write(self, data) -> int:
        if self._writer is None or self.closed:
            raise ValueError("the file is not open for writing")
        written = self._writer.write(data).wait()
        self.loc += written
        return written

    def flush(self, force: bool = False) -> None:
        """New readers see all bytes so far."""
        if self._writer is not None and not self.closed:
            self._writer.flush().wait()

    def close(self) -> None:
        if self.closed:
            return
        if self._writer is not None:
            self._writer.close().wait()
        self.closed = True

    def commit(self) -> None:
        """Ends a transaction's part of this file: it gets its name."""
        if self._hidden:
            self.fs.client.rename(self._hidden, self.path, overwrite=True).wait()

    def discard(self) -> None:
        if self._hidden:
            self.fs.client.delete(self._hidden).wait()


def _error(number: int, path: str) -> OSError:
    """Of the class that Python has for the number."""
    return OSError(number, os.strerror(number), path)


def _range(start: int | None, end: int | None, size: int) -> tuple[int, int]:
    """Offset and length, with Python's negative places."""
    start, end, _ = slice(start, end).indices(size)
    return start, max(0, end - start)


def _url(host: str | None, port: int | None) -> str:
    if not host:
        found = _levada.default_url()
        if not found:
            raise ValueError("no host is given, and Hadoop's configuration names no store: levada://host:8020/path")
        return found
    return f"hdfs://{host}:{port}" if port and ":" not in host else f"hdfs://{host}"


def _user() -> str:
    return os.environ.get("HADOOP_USER_NAME") or _levada.ticket_user() or getpass.getuser()
