"""Each test has a directory of its own in one store."""

import itertools

import pytest

NUMBERS = itertools.count(1)


@pytest.fixture
def home(levada_fs):
    path = f"/home/{next(NUMBERS)}"
    levada_fs.makedirs(path)
    return path
