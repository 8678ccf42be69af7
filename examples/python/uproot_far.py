"""uproot from far away: each step by one request, and what earlier runs read with the opening.

    python uproot_far.py [levada://host:port/directory]
"""

import fsspec
import numpy as np
import uproot
from events import put_events
from place import place

import levada.uproot

with place() as address:
    fs, directory = fsspec.url_to_fs(address)
    fs.makedirs(directory, exist_ok=True)
    put_events(fs, f"{directory}/events.root")

    # The store of an example is near: it is read as if it were not. `profile`: what is known of the files of a name.
    source = {"handler": levada.uproot.Source, "round_trip": 0.24, "profile": "example events"}
    with uproot.open(f"{address}/events.root:events", **source) as tree:
        steps = list(tree.iterate(["px", "charge"], step_size=20_000, library="np"))
        print(tree.file.source.statistics)

    assert sum(len(step["px"]) for step in steps) == 100_000
    assert (np.concatenate([step["px"] for step in steps]) == np.arange(100_000) * 0.5).all()
