"""pyarrow: one Parquet file, and a data set of many.

    python pyarrow_dataset.py [levada://host:port/directory]
"""

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from place import place

trips = pa.table(
    {
        "city": ["Funchal", "Machico", "Calheta", "Funchal"] * 25_000,
        "metres": list(range(100_000)),
        "minutes": [metres // 80 for metres in range(100_000)],
    }
)

with place() as address:
    # pyarrow takes any file system of fsspec.
    fs, directory = fsspec.url_to_fs(address)
    fs.makedirs(directory, exist_ok=True)

    # One file. Of two columns their pieces are read, in one request, and nothing else.
    pq.write_table(trips, f"{directory}/trips.parquet", filesystem=fs)
    two = pq.read_table(f"{directory}/trips.parquet", columns=["metres", "minutes"], filesystem=fs)
    print("columns:", two.column_names, "rows:", two.num_rows)

    # A directory for each city. A filter leaves out the files that cannot match.
    by_city = ds.partitioning(pa.schema([("city", pa.string())]), flavor="hive")
    where = {"filesystem": fs, "format": "parquet", "partitioning": by_city}
    ds.write_dataset(trips, f"{directory}/trips", existing_data_behavior="delete_matching", **where)
    found = ds.dataset(f"{directory}/trips", **where)
    long = found.to_table(columns=["minutes"], filter=(ds.field("city") == "Calheta") & (ds.field("metres") > 99_000))
    print("long trips from Calheta:", long.num_rows)

    assert two.equals(trips.select(["metres", "minutes"])) and long.num_rows == 250
