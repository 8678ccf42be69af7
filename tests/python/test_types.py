"""What a checker of types finds in the installed package, and in a program that uses it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

PROGRAM = """
from typing import assert_type
from levada import LevadaFileSystem, _levada
from levada.testing import Store

async def work(client: _levada.Client) -> None:
    reader = await client.open("/f", status=True)
    assert_type(reader, _levada.Reader)
    assert_type(await reader.read_ranges([(0, 1)]), list[bytes])
    assert_type(client.status("/f").wait()["size"], int)

with Store() as store:
    fs = LevadaFileSystem(store.host, store.port)
    assert_type(store.url, str)
"""


def check(directory: Path, *of: str) -> None:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(directory / "cache"), "--check-untyped-defs"]
    # fsspec has no types.
    command += ["--ignore-missing-imports", *of]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_package(tmp_path):
    check(tmp_path, "-p", "levada")


def test_a_program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    check(tmp_path, "program.py")


def test_the_stub_has_what_the_module_has(tmp_path):
    command = [sys.executable, "-m", "mypy.stubtest", "levada._levada"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
