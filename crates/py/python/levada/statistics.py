"""How well reading ahead goes, for programs and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class Statistics:
    """Of one file since it was opened, or of all files of a file system."""

    reads: int = 0
    read_bytes: int = 0
    # Reads of which all was in memory, and those that waited for the store.
    hits: int = 0
    waits: int = 0
    # Bytes asked for; of these what was read, and what was in vain if the program ended now.
    asked_bytes: int = 0
    used_bytes: int = 0
    wasted_bytes: int = 0
    # Times at which requests left: what leaves together is one.
    turn_arounds: int = 0
    # Vectored reads, their ranges, and how many of them failed.
    fetches: int = 0
    ranges: int = 0
    failures: int = 0
    memory_bytes: int = 0
    memory_bytes_max: int = 0
    # Files whose columns are known, and of which an earlier run told what is read.
    has_layout: int = 0
    has_profile: int = 0

    @classmethod
    def of(cls, files: Iterable[Mapping[str, int]]) -> Statistics:
        """The sum."""
        total = asdict(cls())
        for file in files:
            for name in total:
                total[name] += int(file.get(name, 0))
        return cls(**total)

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("reads", f"{self.reads:,} of {_size(self.read_bytes)}, {self.hits:,} from memory, {self.waits:,} waited"),
            ("turn-arounds", f"{self.turn_arounds:,}, with {self.fetches:,} fetches of {self.ranges:,} ranges"),
            ("bytes asked for", f"{_size(self.asked_bytes)}, {_size(self.wasted_bytes)} of them in vain so far"),
            ("memory", f"{_size(self.memory_bytes)} of {_size(self.memory_bytes_max)}"),
            ("known", f"columns: {_said(self.has_layout)}, earlier runs: {_said(self.has_profile)}"),
        ]

    def __repr__(self) -> str:
        return "\n".join(f"{name:>15}  {text}" for name, text in self._rows())

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in self._rows())
        return f"<table>{rows}</table>"


assert all(field.default == 0 for field in fields(Statistics)), "sums begin with nothing"


def _said(count: int) -> str:
    return "yes" if count == 1 else str(count or "no")


def _size(length: int) -> str:
    for unit, size in [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)]:
        if length >= size:
            return f"{length / size:,.2f} {unit}"
    return f"{length} B"
