"""DuckDB: SQL over files of the store.

    python duckdb_sql.py [levada://host:port/directory]
"""

import duckdb
import fsspec
from place import place

with place() as address:
    fs, directory = fsspec.url_to_fs(address)
    fs.makedirs(directory, exist_ok=True)
    database = duckdb.connect()
    # From now on it reads and writes `levada://` through this file system.
    database.register_filesystem(fs)

    for year in 2024, 2025, 2026:
        database.sql(
            f"copy (select {year} as year, range as day, range * 3 as litres from range(365)) "
            f"to '{address}/flow-{year}.parquet' (format parquet)"
        )
    flow = database.sql(f"select * from read_parquet('{address}/flow-*.parquet')")
    found = flow.filter("day < 100").aggregate("year, sum(litres)", "year").order("year").fetchall()
    print(found)

    assert found == [(year, 14_850) for year in (2024, 2025, 2026)]
