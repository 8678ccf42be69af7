"""Files that are read ahead: those opened last stay for who opens them again, and what was learned is kept.

    first opening:   footer ── columns … ──▶ memory        kept as a profile when it is closed, and when Python ends
    next opening:    ── from memory ───────▶

A tool opens a file for its footer and once more for its columns: both read by one cache.
"""

from __future__ import annotations

import atexit
import os
from collections import OrderedDict, deque
from dataclasses import replace
from weakref import WeakSet

from levada import _levada
from levada.statistics import Statistics

# From there on reading ahead is worth it, in seconds of a round trip: farther than any two machines of one site. A
# guess; the client takes the same for far.
FAR_S = 0.005
# Files whose caches are kept. What is still open stays in any case.
COUNT_MAX = 4

# One version of a file, and whose profile it has.
_Key = tuple[str, int, float, int, "str | None"]


class AheadFiles:
    """Of one file system."""

    def __init__(self) -> None:
        self._files: OrderedDict[_Key, _levada.Reader] = OrderedDict()
        # The sum of those that were let go.
        self._past = Statistics()
        _ALL.add(self)

    def of(self, path: str, reader: _levada.Reader, profile: str | None) -> _levada.Reader:
        """The same file by its cache; as it is, if nothing tells its versions apart."""
        key = _key(path, reader, profile)
        if not key:
            return reader
        while call := _next_saving():
            call.wait()
        return self._kept(key, self._files.get(key) or reader.ahead(profile).wait())

    async def of_path(self, path: str, reader: _levada.Reader, profile: str | None) -> _levada.Reader:
        """As `of`, for event loops."""
        key = _key(path, reader, profile)
        if not key:
            return reader
        while call := _next_saving():
            await call
        made = None if key in self._files else await reader.ahead(profile)
        # Another task may have been faster.
        return self._kept(key, self._files.get(key) or made or await reader.ahead(profile))

    def _kept(self, key: _Key, known: _levada.Reader) -> _levada.Reader:
        self._files.pop(key, None)
        self._files[key] = known
        while len(self._files) > COUNT_MAX:
            _, oldest = self._files.popitem(last=False)
            self._past = replace(Statistics.of(_numbers([self._past, oldest])), memory_bytes=0, memory_bytes_max=0)
        return known

    @property
    def statistics(self) -> Statistics:
        """Of all files that were opened."""
        return Statistics.of(_numbers([self._past, *self._files.values()]))

    def save(self) -> None:
        for file in [*self._files.values()]:
            file.save().wait()
            file.share().wait()


def _key(path: str, reader: _levada.Reader, profile: str | None) -> _Key | None:
    status = reader.status
    if not status or not status["size"]:
        return None
    return path, status["id"], status["mtime"], status["size"], profile


_ALL: WeakSet[AheadFiles] = WeakSet()
# What was learned of files that were closed, on its way to the disk. Who opens one waits for it; who closes one does
# not, since threads of tools close files, too, and maybe while Python ends.
_SAVING: deque[_levada.Call[None]] = deque()
# And on its way to the store, some round trips: waited for when Python ends. Of many files that are closed at once the
# store may miss some, which their users' own profiles have.
_SHARING: deque[_levada.Call[None]] = deque(maxlen=64)


def save_later(reader: _levada.Reader) -> None:
    """Keeps what was learned of a file, for those that are opened from now on, here and in other programs."""
    for calls, call in ((_SAVING, reader.save()), (_SHARING, reader.share())):
        call.start()
        calls.append(call)


def _next_saving() -> _levada.Call[None] | None:
    return _next(_SAVING)


def _next(calls: deque[_levada.Call[None]]) -> _levada.Call[None] | None:
    try:
        return calls.popleft()
    except IndexError:
        return None


def _numbers(files: list[Statistics | _levada.Reader]) -> list[dict[str, int]]:
    return [vars(file) if isinstance(file, Statistics) else file.statistics or {} for file in files]


def _at_exit(process: int) -> None:
    # A child that was forked ends with what its parent learned, which is the parent's to keep.
    if os.getpid() != process:
        return
    while call := _next_saving() or _next(_SHARING):
        call.wait()
    for files in [*_ALL]:
        files.save()


atexit.register(_at_exit, os.getpid())


def _forget() -> None:
    # What a parent has under way runs on its threads, which a child that was forked does not have.
    _SAVING.clear()
    _SHARING.clear()


os.register_at_fork(after_in_child=_forget)
