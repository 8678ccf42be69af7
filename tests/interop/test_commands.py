"""The script of commands/script.txt gives the output and exit code that Apache HDFS gives.

What Apache HDFS says is kept in commands/apache-3.5.0.json, which commands/record.py writes: so this needs no second
server. Where we differ, commands/different.txt says why; a line there that differs no more must go.
"""

import difflib
import json
import os
import sys
from itertools import islice

import pytest

from cli import levada
from paths import ROOT
from store import Store

sys.path.insert(0, str(ROOT / "tests" / "interop" / "commands"))
import commands  # noqa: E402

# Of a command that differs, in the report.
LINE_COUNT_MAX, LINE_LEN_MAX = 12, 200

pytestmark = pytest.mark.levada


def different() -> dict[str, str]:
    """The commands that may differ, and why."""
    found, why = {}, ""
    for line in commands.DIFFERENT.read_text().splitlines():
        if line.startswith("#"):
            why = line.strip("# ")
        elif line.strip():
            found[line.strip()] = why
    return found


@pytest.mark.timeout(900)
def test_every_command_says_what_apache_hdfs_says(tmp_path):
    golden = json.loads(commands.GOLDEN.read_text())
    assert [row["command"] for row in golden] == commands.lines(), "the script changed: run commands/record.py"
    store = Store(tmp_path / "levada")
    try:
        levada(store.fs, "rm", "-r", "/user")  # Apache HDFS makes nobody's home directory
        rows = commands.play(store.fs, tmp_path / "local", golden)
    finally:
        store.stop()
    if kept := os.environ.get("LEVADA_COMMANDS_OUT"):
        open(kept, "w").write(commands.dump(rows))
    known = different()
    wrong, differ = [], set()
    for number, (want, have) in enumerate(zip(golden, rows), 1):
        if want == have:
            continue
        differ.add(want["command"])
        if want["command"] not in known:
            wrong.append(f"{number}: {want['command']}\n" + "\n".join(islice(compared(want, have), LINE_COUNT_MAX)))
    assert not wrong, f"{len(wrong)} of {len(rows)} commands differ:\n\n" + "\n\n".join(wrong)
    assert not (gone := known.keys() - differ), f"these do not differ any more: take them from different.txt: {gone}"


def compared(want: dict, have: dict):
    if want["code"] != have["code"]:
        yield f"  exit code {have['code']}, not {want['code']}"
    for part in ("out", "err"):
        for line in difflib.unified_diff(want[part].splitlines(), have[part].splitlines(), n=0, lineterm=""):
            if not line.startswith(("---", "+++", "@@")):
                yield f"  {part} {line[:LINE_LEN_MAX]}"
