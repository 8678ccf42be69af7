"""Sums up by crate what `llvm-cov export` says of files. Arguments: CRATE:PERCENT, the least that is enough.

What only tests and fuzz targets call (TOOLS) is no part of a server, and counts for nothing.

Prints each crate's share of lines that were passed and its files from the worst on; exits with 1 if one has too few.
"""

import json
import sys
from collections import defaultdict

TOOLS = ("src/fuzz.rs", "src/example.rs")


def main() -> int:
    wanted = {name: float(least) for name, least in (argument.split(":") for argument in sys.argv[1:])}
    files = json.load(sys.stdin)["data"][0]["files"]
    crates = defaultdict(list)
    for file in files:
        name, _, rest = file["filename"].partition("/crates/")[2].partition("/")
        if name in wanted and rest not in TOOLS:
            lines = file["summary"]["lines"]
            crates[name].append((lines["count"] - lines["covered"], lines["count"], rest))
    failed = False
    for name, least in wanted.items():
        missed, count = (sum(column) for column in list(zip(*crates[name]))[:2])
        share = 100 * (count - missed) / count
        failed |= share < least
        print(f"{name}: {share:.1f} % of {count} lines, to reach: {least:.0f} %")
        for missed, count, rest in sorted(crates[name], reverse=True)[:12]:
            print(f"    {missed:5} of {count:5} not passed: {rest}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
