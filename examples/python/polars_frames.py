"""polars: through files of fsspec, and lazily through a data set of pyarrow.

    python polars_frames.py [levada://host:port/directory]
"""

import fsspec
import polars as pl
import pyarrow.dataset as ds
from place import place

springs = pl.DataFrame({"spring": range(100_000), "metres": [n % 1800 for n in range(100_000)]})

with place() as address:
    fs, directory = fsspec.url_to_fs(address)
    fs.makedirs(directory, exist_ok=True)

    with fs.open(f"{directory}/springs.parquet", "wb") as file:
        springs.write_parquet(file)
    with fs.open(f"{directory}/springs.parquet") as file:
        print(pl.read_parquet(file, columns=["metres"]).describe())

    # polars' own readers of addresses know a few kinds of stores alone. A data set is how others are read lazily: the
    # columns and the filter of the query are handed down to it.
    lazy = pl.scan_pyarrow_dataset(ds.dataset(f"{directory}/springs.parquet", filesystem=fs))
    high = lazy.filter(pl.col("metres") > 1790).select(pl.len()).collect().item()
    print("springs above 1790 m:", high)

    assert high == springs.filter(pl.col("metres") > 1790).height
