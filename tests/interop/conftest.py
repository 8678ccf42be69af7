"""Fixtures: one store and one JVM for the whole run, a directory of its own for each test.

LEVADA_TEST_FS=hdfs://host:port runs the same tests against another HDFS; those marked `levada` need our own
servers (to kill them, to look into their directories) and are skipped then.
"""

import itertools
import os
import re

import pytest

import paths
from java import Java
from others import Go, Native
from store import SUPERUSER, External, Store

OTHER = os.environ.get("LEVADA_TEST_FS")


def pytest_configure(config):
    config.addinivalue_line("markers", "levada: needs servers of our own, not just an hdfs:// address")


# What takes minutes begins first, so that nobody waits for it alone in the end.
LONG = ["test_torture", "test_power", "test_losses"]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONG)
    for item in items:
        if OTHER and item.get_closest_marker("levada"):
            item.add_marker(pytest.mark.skip(reason="needs servers of our own"))


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    found = External(OTHER) if OTHER else Store(tmp_path_factory.mktemp("store") / "levada")
    yield found
    found.stop()


@pytest.fixture(scope="session")
def java():
    jvm = Java()
    yield jvm
    jvm.stop()


@pytest.fixture(scope="session")
def root(java, store):
    """The FileSystem API as the superuser."""
    return java.mount(store.fs, SUPERUSER)


@pytest.fixture(scope="session")
def native(store):
    child = Native(store.fs, SUPERUSER)
    yield child
    child.stop()


@pytest.fixture(scope="session")
def go(store):
    child = Go(store.fs, SUPERUSER)
    yield child
    child.stop()


numbers = itertools.count(1)


@pytest.fixture
def home(root, request):
    """An empty directory that everybody may write."""
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    path = f"/tests/{next(numbers)}-{name}"
    root.delete(path)
    root.mkdirs(path)
    root.call("set-permission", path=path, mode="777")
    yield path
    root.delete(path)


@pytest.fixture
def users(java, store):
    """FileSystem API as any user: `users("alice")`, with a configuration if wanted."""
    made = []

    def mount(name, conf=None):
        made.append(java.mount(store.fs, name, conf))
        return made[-1]

    yield mount
    for fs in made:
        fs.unmount()


@pytest.fixture
def up(tmp_path):
    """Stores of a test's own: `up("--processes")`."""
    made = []

    def start(*options, **how):
        made.append(Store(tmp_path / f"levada{len(made)}", *options, **how))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.stop()


def has_cli() -> bool:
    return paths.LEVADA.exists()
