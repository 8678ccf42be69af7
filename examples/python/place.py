"""Where an example puts its files: below the address that it is given, or in a store of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from levada.testing import Store


@contextmanager
def place() -> Iterator[str]:
    if len(sys.argv) > 1:
        yield sys.argv[1].rstrip("/")
        return
    with Store() as store:
        yield f"levada://{store.host}:{store.port}/examples"
