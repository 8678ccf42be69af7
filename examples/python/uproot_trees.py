"""uproot: branches of a ROOT tree.

    python uproot_trees.py [levada://host:port/directory]
"""

import os
import tempfile

import fsspec
import numpy as np
import uproot
from place import place

with place() as address:
    fs, directory = fsspec.url_to_fs(address)
    fs.makedirs(directory, exist_ok=True)

    # A ROOT file is written in no order, which no file of HDFS can be: it is made on the disk, and put.
    with tempfile.TemporaryDirectory() as local:
        made = os.path.join(local, "events.root")
        with uproot.recreate(made) as file:
            tree = file.mktree("events", {"px": "f8", "py": "f8", "charge": "i4"})
            for part in range(10):
                numbers = np.arange(part * 10_000, (part + 1) * 10_000)
                tree.extend({"px": numbers * 0.5, "py": numbers * 0.25, "charge": numbers % 3 - 1})
        fs.put_file(made, f"{directory}/events.root")

    # The baskets of two branches are read, those that are asked for together by one request.
    with uproot.open(f"{address}/events.root:events") as tree:
        found = tree.arrays(["px", "charge"], library="np")
    print("events:", len(found["px"]), "charge:", found["charge"].sum())

    assert (found["px"] == np.arange(100_000) * 0.5).all()
