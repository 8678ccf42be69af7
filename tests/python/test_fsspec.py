"""fsspec's own tests of a file system."""

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests


class Fixtures(AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, levada_store):
        import levada

        return levada.LevadaFileSystem(levada_store.host, levada_store.port)

    @pytest.fixture
    def fs_path(self):
        return "/fsspec"

    @pytest.fixture(scope="class")
    def local_fs(self):
        return LocalFileSystem(auto_mkdir=True)


class TestCopy(Fixtures, AbstractCopyTests):
    pass


class TestGet(Fixtures, AbstractGetTests):
    pass


class TestPut(Fixtures, AbstractPutTests):
    pass


class TestOpen(Fixtures, AbstractOpenTests):
    pass


class TestPipe(Fixtures, AbstractPipeTests):
    pass
