"""Fixtures of pytest."""

import pytest

from levada.testing import Store


@pytest.fixture(scope="session")
def levada_store():
    """A store for the whole run."""
    with Store() as store:
        yield store


@pytest.fixture
def levada_fs(levada_store):
    """The file system of that store."""
    from levada import LevadaFileSystem

    return LevadaFileSystem(levada_store.host, levada_store.port, skip_instance_cache=True)
