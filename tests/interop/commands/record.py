#!/usr/bin/env python3
"""Writes down what Apache HDFS says to the script of commands: apache-3.5.0.json.

    tests/run.sh prepare && .test/venv/bin/python tests/interop/commands/record.py

Starts a namenode and three datanodes from Maven's jars; takes about two minutes. To be run after the script has
changed.
"""

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent), str(HERE), str(ROOT / "bench" / "peers" / "hdfs")]
import commands  # noqa: E402
from apache import Apache  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Apache(pathlib.Path(folder) / "apache")
        try:
            results = commands.play(server.fs, pathlib.Path(folder) / "local")
        finally:
            server.stop()
    commands.GOLDEN.write_text(commands.dump(results))
    print(f"{len(results)} commands in {commands.GOLDEN}")


if __name__ == "__main__":
    main()
