"""pandas: frames by their addresses.

    python pandas_frames.py [levada://host:port/directory]
"""

import pandas as pd
from place import place

levels = pd.DataFrame(
    {
        "day": pd.date_range("2026-01-01", periods=1000),
        "levada": ["do Caldeirao", "dos Tornos"] * 500,
        "litres": range(1000),
    }
)

with place() as address:
    # Nothing is imported of this package: fsspec knows `levada://` once it is installed.
    levels.to_parquet(f"{address}/levels.parquet")
    litres = pd.read_parquet(f"{address}/levels.parquet", columns=["levada", "litres"])
    print(litres.groupby("levada").litres.sum())

    levels.to_csv(f"{address}/levels.csv.gz", index=False)
    again = pd.read_csv(f"{address}/levels.csv.gz", parse_dates=["day"])
    print("rows of the CSV file:", len(again))

    assert again.litres.sum() == litres.litres.sum() == 499_500
