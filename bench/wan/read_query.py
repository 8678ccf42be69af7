"""The query `Tree.Draw("rawtr","E33>5")` by uproot: `read_query.py WAY URL`, cold and once more.

Prints a line of JSON: seconds of the first reading in this process and of a second one by what is open by then, how
many values were selected and their sum, and of Levada what its statistics say. Modules are imported before the clock
runs.
"""

import atexit
import json
import os
import sys
import time

import numpy as np
import uproot

BRANCHES = ("rawtr", "E33")
E33_MIN = 5
COUNTED = ("turn_arounds", "asked_bytes", "wasted_bytes")


def levada_options(turn: str) -> dict:
    """Both readings learn for a later process, and none has what the other has in memory: so each has a profile of its
    own."""
    import levada.uproot

    return {"handler": levada.uproot.Source, "profile": f"query-{turn}"}


def plain_options(turn: str) -> dict:
    """Nothing is read ahead or kept."""
    return {**levada_options(turn), "ahead": False}


def xrootd_options(_turn: str) -> dict:
    from uproot.source.xrootd import XRootDSource

    return {"handler": XRootDSource}


WAYS = {
    "levada-plain": plain_options,
    "levada": levada_options,
    "levada-profile": levada_options,
    "levada-other": levada_options,
    "levada-root": xrootd_options,
    "xrootd": xrootd_options,
    "nginx": lambda _turn: {},
    "local": lambda _turn: {},
}


def read(url: str, options: dict) -> tuple[np.ndarray, dict]:
    with uproot.open(url, **options) as file:
        columns = file["T"].arrays(BRANCHES, library="np")
        statistics = getattr(file.file.source, "statistics", None)
        said = {name: getattr(statistics, name) for name in COUNTED} if statistics else {}
    return columns["rawtr"][columns["E33"] > E33_MIN], said


def main() -> None:
    way, url = sys.argv[1:]
    found = {}
    for turn in ("cold", "kept"):
        options = WAYS[way](turn)
        begun = time.monotonic()
        selected, said = read(url, options)
        found[f"{turn}_s"] = time.monotonic() - begun
        found |= {f"{turn}_{name}": number for name, number in said.items()}
        found |= {"count": len(selected), "sum": float(selected.sum(dtype="f8"))}
    print(json.dumps(found), flush=True)
    # What was learned is to be there for the next process.
    atexit._run_exitfuncs()
    # Some of these clients take a turn-around or two to say good-bye.
    os._exit(0)


if __name__ == "__main__":
    main()
