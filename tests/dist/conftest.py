"""What `cargo xtask dist` makes of the program under test, and machines to install it on."""

import os
import pathlib
import shutil

import pytest

from machine import Machine, NotBooted, run

ROOT = pathlib.Path(__file__).parents[2]
CACHE = pathlib.Path(os.environ.get("LEVADA_TEST_CACHE", ROOT / ".test"))
OLD, NEW = "0.1.0~1", "0.1.0~2"


def make(program: pathlib.Path, version: str, out: pathlib.Path) -> pathlib.Path:
    xtask = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "xtask"
    run(xtask, "dist", "--binary", program, "--version", version, "--out", out)
    return out


@pytest.fixture(scope="session")
def program(tmp_path_factory) -> pathlib.Path:
    """Without its debug information, which would take as long to compress as all tests take."""
    path = tmp_path_factory.mktemp("program") / "levada"
    run("strip", "--strip-debug", "-o", path, os.environ["LEVADA_BIN"])
    return path


@pytest.fixture(scope="session")
def made(program, tmp_path_factory) -> dict[str, pathlib.Path]:
    """A directory for each version."""
    return {version: make(program, version, tmp_path_factory.mktemp("dist")) for version in [OLD, NEW]}


@pytest.fixture
def debian(tmp_path) -> pathlib.Path:
    """A clean root."""
    root, archive = tmp_path / "debian", CACHE / "debian.tar"
    if not archive.exists():
        pytest.skip("no clean Debian could be had from the package archives of this machine")
    root.mkdir()
    run("tar", "--extract", "--file", archive, "--directory", root)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def machine(debian) -> Machine:
    try:
        machine = Machine(debian)
    except NotBooted as why:
        # Nothing of ours runs in it yet: some containers do not let anybody boot.
        pytest.skip(f"a clean Debian does not boot in namespaces here: {why}")
    yield machine
    machine.off()


def deb(directory: pathlib.Path) -> pathlib.Path:
    (package,) = directory.glob("*.deb")
    return package
