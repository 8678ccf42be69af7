"""zarr: a chunked array, each chunk a file.

    python zarr_arrays.py [levada://host:port/directory]
"""

import numpy as np
import zarr
from place import place

with place() as address:
    heights = np.add.outer(np.arange(1000), np.arange(800)).astype("int32")
    array = zarr.create_array(f"{address}/heights.zarr", shape=heights.shape, chunks=(100, 100), dtype="int32")
    array[:] = heights

    # Only the chunks that it touches are read, all at a time.
    again = zarr.open_array(f"{address}/heights.zarr", mode="r")
    window = again[250:350, 410:590]
    print("window:", window.shape, "highest:", window.max())

    assert (window == heights[250:350, 410:590]).all()
