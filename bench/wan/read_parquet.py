"""Two columns of a Parquet file by one tool: `read_parquet.py TOOL URL COLUMN,COLUMN`, once, cold.

Prints a line of JSON: seconds, and the sum of the columns' values. Modules are imported before the clock runs.
"""

import atexit
import json
import os
import sys
import time
from urllib.parse import urlsplit


def opened(url: str):
    """The file system of fsspec that the URL names, and the path in it."""
    import fsspec

    return fsspec.url_to_fs(url)


def by_pyarrow(url: str, columns: list[str]):
    import pyarrow.dataset  # noqa: F401
    import pyarrow.parquet as pq

    def read():
        fs, path = opened(url)
        return pq.read_table(path, columns=columns, filesystem=fs)

    return read


def by_pyarrow_file(url: str, columns: list[str]):
    """A file object in place of a file system."""
    import pyarrow.dataset  # noqa: F401
    import pyarrow.parquet as pq

    def read():
        fs, path = opened(url)
        with fs.open(path) as file:
            return pq.read_table(file, columns=columns)

    return read


def by_pandas(url: str, columns: list[str]):
    import pandas
    import pyarrow.dataset  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    return lambda: pandas.read_parquet(url, columns=columns)


def by_polars(url: str, columns: list[str]):
    import polars
    import pyarrow.dataset as ds

    # It has a reader of its own for addresses that it knows.
    if urlsplit(url).scheme in ("http", "https"):
        return lambda: polars.scan_parquet(url).select(columns).collect().to_arrow()

    def read():
        fs, path = opened(url)
        return polars.scan_pyarrow_dataset(ds.dataset(path, filesystem=fs)).select(columns).collect().to_arrow()

    return read


def by_duckdb(url: str, columns: list[str]):
    import duckdb

    connection = duckdb.connect()

    def read():
        fs, _ = opened(url)
        connection.register_filesystem(fs)
        names = ", ".join(f'"{column}"' for column in columns)
        return connection.sql(f"SELECT {names} FROM read_parquet('{url}')").to_arrow_table()

    return read


def by_duckdb_dataset(url: str, columns: list[str]):
    """As a data set of pyarrow, of which DuckDB asks for the columns that it wants."""
    import duckdb
    import pyarrow.dataset as ds

    connection = duckdb.connect()

    def read():
        fs, path = opened(url)
        connection.register("dataset", ds.dataset(path, filesystem=fs))
        names = ", ".join(f'"{column}"' for column in columns)
        return connection.sql(f"SELECT {names} FROM dataset").to_arrow_table()

    return read


TOOLS = {
    "pyarrow": by_pyarrow,
    "pyarrow-file": by_pyarrow_file,
    "pandas": by_pandas,
    "polars": by_polars,
    "duckdb": by_duckdb,
    "duckdb-dataset": by_duckdb_dataset,
}


def flat(column):
    """Lists of numbers are the numbers in them."""
    import pyarrow as pa

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    while pa.types.is_nested(column.type):
        column = column.flatten()
    return column


def main() -> None:
    tool, url, names = sys.argv[1:]
    columns = names.split(",")
    # What opens the URL is imported beforehand, as the tools are.
    import fsspec
    import pyarrow as pa
    import pyarrow.compute as pc

    fsspec.get_filesystem_class(urlsplit(url).scheme)
    read = TOOLS[tool](url, columns)
    begun = time.monotonic()
    table = read()
    seconds = time.monotonic() - begun
    if tool == "pandas":
        table = pa.Table.from_pandas(table)
    total = sum(pc.sum(flat(table[column]).cast("float64")).as_py() for column in columns)
    print(json.dumps({"cold_s": seconds, "sum": total, "rows": table.num_rows}), flush=True)
    # What was learned is to be there for the next process.
    atexit._run_exitfuncs()
    os._exit(0)


if __name__ == "__main__":
    main()
