"""uproot from far away: each step by one request, and what earlier runs read with the opening.

    python uproot_far.py [levada://host:port/directory]
"""

import os
import tempfile

import fsspec
import numpy as np
import uproot
from place import place

import levada.uproot

with place() as address:
    fs, directory = fsspec.url_to_fs(address)
    fs.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory() as local:
        made = os.path.join(local, "events.root")
        with uproot.recreate(made) as file:
            tree = file.mktree("events", {"px": "f8", "py": "f8", "charge": "i4"})
            for part in range(10):
                numbers = np.arange(part * 10_000, (part + 1) * 10_000)
                tree.extend({"px": numbers * 0.5, "py": numbers * 0.25, "charge": numbers % 3 - 1})
        fs.put_file(made, f"{directory}/events.root")

    # The store of an example is near: it is read as if it were not. `profile`: what is known of the files of a name.
    source = {"handler": levada.uproot.Source, "round_trip": 0.24, "profile": "example events"}
    with uproot.open(f"{address}/events.root:events", **source) as tree:
        steps = list(tree.iterate(["px", "charge"], step_size=20_000, library="np"))
        print(tree.file.source.statistics)

    assert sum(len(step["px"]) for step in steps) == 100_000
    assert (np.concatenate([step["px"] for step in steps]) == np.arange(100_000) * 0.5).all()
