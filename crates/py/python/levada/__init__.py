"""A Levada store for Python: an fsspec file system, and a store for tests (`levada.testing`).

    import fsspec
    with fsspec.open("levada://host:8020/data/events.csv") as file:
        ...
"""

from levada._levada import __version__

__all__ = ["LevadaFile", "LevadaFileSystem", "__version__", "register_for_hdfs"]


def __getattr__(name: str):
    # fsspec takes longer to import than all else here, and `levada.testing` does not need it.
    if name in ("LevadaFile", "LevadaFileSystem"):
        from levada import filesystem

        return getattr(filesystem, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register_for_hdfs() -> None:
    """From now on fsspec opens `hdfs://` by this package, without a JVM."""
    import fsspec

    fsspec.register_implementation("hdfs", "levada.LevadaFileSystem", clobber=True)
