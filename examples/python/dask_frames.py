"""dask: a frame of many files, written and read in parallel.

    python dask_frames.py [levada://host:port/directory]
"""

import dask.dataframe as dd
import pandas as pd
from place import place

with place() as address:
    walks = pd.DataFrame({"walker": [n % 97 for n in range(100_000)], "metres": range(100_000)})
    dd.from_pandas(walks, npartitions=8).to_parquet(f"{address}/walks")

    frame = dd.read_parquet(f"{address}/walks", columns=["walker", "metres"])
    far = frame.groupby("walker").metres.max().compute()
    print(far.nlargest(3))

    assert frame.npartitions == 8 and far.max() == 99_999
