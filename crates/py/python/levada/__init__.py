"""A Levada store for Python: an fsspec file system, and a store for tests (`levada.testing`).

    import fsspec
    with fsspec.open("levada://host:8020/data/events.csv") as file:
        ...
"""

from __future__ import annotations

from levada import ending as _ending  # Waits at exit for those who read.
from levada import loops as _loops  # Gives calls their `__await__`.
from levada._levada import __version__

# Checkers of types take the name for true; `typing` itself takes longer to import than all that is imported here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from levada.filesystem import LevadaFile, LevadaFileSystem
    from levada.statistics import Statistics
    from levada.streams import LevadaStream

__all__ = [
    "LevadaFile",
    "LevadaFileSystem",
    "LevadaStream",
    "Statistics",
    "__version__",
    "open",
    "register_for_hdfs",
]


def __getattr__(name: str) -> Any:
    # fsspec takes longer to import than all else here, and `levada.testing` does not need it.
    if name in ("LevadaFile", "LevadaFileSystem", "LevadaStream"):
        from levada import filesystem

        return getattr(filesystem, name)
    if name == "Statistics":
        from levada.statistics import Statistics

        return Statistics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open(url: str, mode: str = "rb", *, profile: str | None = "auto", **options: Any) -> LevadaFile:
    """A file by its address, `levada://host:port/path`.

    From far away what will be read next is fetched before it is asked for. `profile`: whose reads of earlier runs say
    what that is: `auto`, of the files of its directory; a name that files share; or `None`. `options`: of the
    file system, `ahead=False` among them.
    """
    from levada.filesystem import LevadaFileSystem

    fs = LevadaFileSystem(**{**LevadaFileSystem._get_kwargs_from_urls(url), **options})
    return fs.open(url, mode, profile=profile)


def register_for_hdfs() -> None:
    """From now on fsspec opens `hdfs://` by this package, without a JVM."""
    import fsspec

    fsspec.register_implementation("hdfs", "levada.LevadaFileSystem", clobber=True)
