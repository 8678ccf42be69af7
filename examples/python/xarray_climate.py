"""xarray: labelled arrays in zarr, opened lazily.

    python xarray_climate.py [levada://host:port/directory]
"""

import numpy as np
import pandas as pd
import xarray as xr
from place import place

with place() as address:
    days = pd.date_range("2026-01-01", periods=365)
    rain = xr.Dataset(
        {"rain": (("day", "station"), np.arange(365.0 * 12).reshape(365, 12))},
        coords={"day": days, "station": [f"station {n}" for n in range(12)]},
    )
    rain.to_zarr(f"{address}/rain.zarr", mode="w", encoding={"rain": {"chunks": (30, 12)}})

    # The metadata alone is read here; the sum reads the chunks of one month.
    lazy = xr.open_zarr(f"{address}/rain.zarr", chunks=None)
    june = lazy.rain.sel(day=slice("2026-06-01", "2026-06-30")).sum("day")
    print(june.to_series().head(3))

    assert june.equals(rain.rain.sel(day=slice("2026-06-01", "2026-06-30")).sum("day"))
