"""Each example runs as its reader would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
# What others import is no example.
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in ("events.py", "place.py"))


@pytest.mark.parametrize("name", NAMES)
def test_example(levada_store, home, name):
    address = f"levada://{levada_store.host}:{levada_store.port}{home}"
    command = [sys.executable, "-X", "faulthandler", str(EXAMPLES / name), address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def test_an_example_brings_a_store_of_its_own(levada_store):
    command = [sys.executable, str(EXAMPLES / "pyarrow_dataset.py")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, env=os.environ)
    assert ended.returncode == 0, ended.stderr


def test_all_are_in_the_table():
    table = (EXAMPLES / "README.md").read_text()
    assert all(f"[{name}]({name})" in table for name in NAMES)
