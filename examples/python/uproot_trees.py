"""uproot: branches of a ROOT tree.

    python uproot_trees.py [levada://host:port/directory]
"""

import fsspec
import numpy as np
import uproot
from events import put_events
from place import place

with place() as address:
    fs, directory = fsspec.url_to_fs(address)
    fs.makedirs(directory, exist_ok=True)
    put_events(fs, f"{directory}/events.root")

    # The baskets of two branches are read, those that are asked for together by one request.
    with uproot.open(f"{address}/events.root:events") as tree:
        found = tree.arrays(["px", "charge"], library="np")
    print("events:", len(found["px"]), "charge:", found["charge"].sum())

    assert (found["px"] == np.arange(100_000) * 0.5).all()
