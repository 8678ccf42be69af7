"""A ROOT file for the examples of uproot: the tree `events` with 100,000 entries, whose numbers tell which they are."""

import os
import tempfile

import numpy as np
import uproot


def put_events(fs, path: str) -> None:
    # A ROOT file is written in no order, which no file of HDFS can be: it is made on the disk, and put.
    with tempfile.TemporaryDirectory() as local:
        made = os.path.join(local, "events.root")
        with uproot.recreate(made) as file:
            tree = file.mktree("events", {"px": "f8", "py": "f8", "charge": "i4"})
            for part in range(10):
                numbers = np.arange(part * 10_000, (part + 1) * 10_000)
                tree.extend({"px": numbers * 0.5, "py": numbers * 0.25, "charge": numbers % 3 - 1})
        fs.put_file(made, path)
