"""What a reader of a Parquet file far away will ask for next, so that it comes with what it asks for now.

    reader:  footer      column 3 of group 0      of group 1      of group 2 …     a round trip each
    here:    footer      column 3 of all groups   ── from memory ──────────▶

Such a reader asks for the end of the file, which says where each column has its piece in each row group, and then for
the pieces of the columns that it wants. With the first piece of a column those behind it come by the same read.
A file of another kind is read as it is asked for, but for a little more of its end.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock

from levada import _levada

# From there on reading ahead is worth it, in seconds of a round trip: farther than any two machines of one site. A
# guess; the client takes the same for far.
FAR_S = 0.005
# The footer of a wide table has about a 500th of the file's bytes; one who asks for an end gets this much of it, so
# that footers come in one read: a megabyte is what 32 new connections bring in two round trips.
TAIL_SHARE = 200
TAIL_LEN_MIN, TAIL_LEN_MAX = 64 << 10, 1 << 20
# A read that ends with the file and begins not farther from its end looks for a footer: DuckDB asks for 256 KiB.
TAIL_ASKED_MAX = 512 << 10
# What is read ahead at first, and at most: each time it is used up, twice as much.
AHEAD_LEN_MIN, AHEAD_LEN_MAX = 4 << 20, 16 << 20
# A longer piece is read as it is asked for: what it takes to ask is little beside that.
PIECE_LEN_MAX = 4 << 20
# Of one file. What came first goes first.
KEPT_LEN_MAX = 64 << 20


class Columns:
    """One version of one file: for all who read it in this process, one after the other where they want the same."""

    def __init__(self, size: int):
        self._size = size
        self._lock = Lock()
        # By their first bytes, and those in order.
        self._parts: dict[int, bytes] = {}
        self._starts: list[int] = []
        # First byte, the one behind the last, column; in the order of the file. Empty: the footer was not seen yet.
        self._pieces: list[tuple[int, int, int]] = []
        self._piece_starts: list[int] = []
        self._of_column: dict[int, list[tuple[int, int]]] = {}
        self._ahead_len = AHEAD_LEN_MIN
        # Columns of which something was asked for.
        self._read: set[int] = set()

    def read(self, reader: _levada.Reader, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`, cut at the end of the file."""
        end = min(end, self._size)
        if start >= end:
            return b""
        with self._lock:
            gaps = self._gaps(start, end)
            if not gaps:
                return self._joined(start, end, {})
            if end == self._size and self._size - start <= TAIL_ASKED_MAX:
                self._fetch_footer(reader, start)
                return self._joined(start, end, {})
            if touched := self._touched(start, end):
                return self._fetch_columns(reader, touched, start, end)
        # Nobody else waits for this one.
        return reader.read_at(start, end - start).wait()

    def _fetch_columns(
        self, reader: _levada.Reader, touched: list[tuple[int, int, int]], start: int, end: int
    ) -> bytes:
        ahead = self._ahead(touched, start)
        # What lies in no piece that comes whole is read beside them, and not kept.
        alone = [one for gap in self._gaps(start, end) for one in _without(gap, ahead)]
        found = reader.read_ranges([(first, behind - first) for first, behind in [*ahead, *alone]]).wait()
        beside = dict(zip((first for first, _ in alone), found[len(ahead) :]))
        came = dict(zip((first for first, _ in ahead), found))
        # Before what is kept makes room: this read has its bytes in any case.
        joined = self._joined(start, end, {**came, **beside})
        self._keep(came)
        return joined

    # ── what is there ──

    def _gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """What of it is not here."""
        parts = [(first, first + len(self._parts[first])) for first in self._around(start, end)]
        return _without((start, end), parts)

    def _around(self, start: int, end: int) -> list[int]:
        """The beginnings of the parts that have some of it."""
        at = max(0, bisect_right(self._starts, start) - 1)
        return [first for first in self._starts[at : bisect_right(self._starts, end - 1)] if self._ends(first) > start]

    def _ends(self, first: int) -> int:
        return first + len(self._parts[first])

    def _joined(self, start: int, end: int, beside: dict[int, bytes]) -> bytes:
        """Of the parts, and of what was read beside them."""
        known = [(first, self._parts[first]) for first in self._around(start, end)]
        found: list[bytes] = []
        at = start
        for first, part in sorted([*known, *beside.items()], key=lambda one: one[0]):
            if first + len(part) <= at or first >= end:
                continue
            assert first <= at, f"nothing is there from {at} to {first}"
            found.append(part if first == at and len(part) <= end - at else part[at - first : end - first])
            at += len(found[-1])
        assert at == end, f"nothing is there from {at} to {end}"
        return found[0] if len(found) == 1 else b"".join(found)

    def _keep(self, parts: dict[int, bytes]) -> None:
        self._parts.update(parts)
        total = sum(map(len, self._parts.values()))
        for oldest in [*self._parts]:
            if total <= KEPT_LEN_MAX:
                break
            total -= len(self._parts.pop(oldest))
        self._starts = sorted(self._parts)

    # ── what will be asked for ──

    def _touched(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Pieces of which something is asked for."""
        at = max(0, bisect_right(self._piece_starts, start) - 1)
        some = self._pieces[at : bisect_right(self._piece_starts, end - 1)]
        return [piece for piece in some if piece[1] > start]

    def _ahead(self, touched: list[tuple[int, int, int]], start: int) -> list[tuple[int, int]]:
        """The pieces touched, as far as they are not here, and those of the same columns behind them; of a column
        that is read for the first time also those before, as threads begin anywhere."""
        columns = {column for _, _, column in touched}
        candidates = [
            (end <= start, first, end)
            for column in columns
            for first, end in self._of_column[column]
            if end > start or column not in self._read
        ]
        self._read |= columns
        needed = {(first, end) for first, end, _ in touched}
        wanted: list[tuple[int, int]] = []
        length = 0
        for _, first, end in sorted(candidates):
            if not self._gaps(first, end):
                continue
            # What is needed comes in any case.
            if (first, end) not in needed and length + end - first > self._ahead_len:
                break
            wanted.append((first, end))
            length += end - first
        self._ahead_len = min(2 * self._ahead_len, AHEAD_LEN_MAX)
        return wanted

    def _fetch_footer(self, reader: _levada.Reader, start: int) -> None:
        tail_len = max(TAIL_LEN_MIN, min(TAIL_LEN_MAX, self._size // TAIL_SHARE))
        first = min(start, max(0, self._size - tail_len))
        tail = reader.read_at(first, self._size - first).wait()
        length = _levada.parquet_footer_len(tail[-8:]) if len(tail) >= 8 else None
        footer_first = self._size - 8 - length if length is not None else first
        if 0 <= footer_first < first:
            # It will be asked for.
            tail = reader.read_at(footer_first, first - footer_first).wait() + tail
            first = footer_first
        self._keep({first: tail})
        if length is None or footer_first < 0:
            return
        footer = memoryview(tail)[footer_first - first : len(tail) - 8]
        pieces = _levada.parquet_pieces(footer.tobytes()) or []
        if all(offset + length <= footer_first for offset, length, _ in pieces):
            short = [one for one in pieces if one[1] <= PIECE_LEN_MAX]
            self._pieces = [(offset, offset + length, column) for offset, length, column in short]
            self._piece_starts = [piece[0] for piece in self._pieces]
            self._of_column = {}
            for offset, end, column in self._pieces:
                self._of_column.setdefault(column, []).append((offset, end))


def _without(whole: tuple[int, int], parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of it without these."""
    left: list[tuple[int, int]] = []
    at, end = whole
    for first, behind in sorted(parts):
        if first > at:
            left.append((at, min(first, end)))
        at = max(at, behind)
        if at >= end:
            break
    if at < end:
        left.append((at, end))
    return left
