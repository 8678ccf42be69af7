"""Each test has a directory of its own in one store."""

import itertools

import pytest

NUMBERS = itertools.count(1)


@pytest.fixture(autouse=True)
def no_profiles(tmp_path_factory, monkeypatch):
    """What one test reads is not what the next one will."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def home(levada_fs):
    path = f"/home/{next(NUMBERS)}"
    levada_fs.makedirs(path)
    return path
