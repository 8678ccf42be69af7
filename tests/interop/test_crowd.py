"""Ten thousand clients that wait, readers and callers that take nothing, more writers than there is memory for: all who
want something are served, in bounded memory.

How fast is for bench/crowd/run.py to say; here only that nobody waits for those who take nothing to be given up.
"""

import pytest

import crowd
from rawdata import Names
from store import SUPERUSER, Store

pytestmark = pytest.mark.levada

MEMORY_MAX = 400e6  # private pages, where `--memory 512M` is asked for
LATE_S = 5.0  # a call that waited for the crowd took a minute


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("crowd") / "levada", "--memory", "512M")
    yield store
    store.stop()


def served(store, located) -> None:
    for what, times in crowd.latencies(store, located, 3).items():
        assert crowd.percentile(times, 0.99) < LATE_S, f"{what}: {sorted(times)[-5:]}"
    assert store.process.poll() is None
    assert store.resident() < MEMORY_MAX, store.resident()
    assert "panicked" not in store.log()


def test_ten_thousand_who_wait_and_two_hundred_who_do_not_read(crowded):
    small = crowd.write(crowded, "/small", 1 << 20)
    large = crowd.write(crowded, "/large", 64 << 20)
    with crowd.Crowd(crowded, large, idle=10_000, stalled=200):
        served(crowded, small)
    served(crowded, small)


def test_more_who_wait_at_one_datanode_than_it_has_places(crowded):
    """Twelve thousand, where there are 8,192 places: those who were silent for longest go."""
    located = crowd.write(crowded, "/here", 1 << 20)
    with crowd.Crowd(crowded, located, silent=12_000):
        served(crowded, located)
    assert "all others are being answered" not in crowded.log()


def test_callers_who_take_no_answers(crowded):
    """Two hundred ask for 6 GB of answers: they are cut off when memory is short, and nobody waits for it."""
    small = crowd.write(crowded, "/other", 1 << 20)
    crowd.fill(crowded, "/long", 1000)
    names = Names(crowded.fs, "root")
    for _ in range(100):
        names.call("getListing", (1, "/"), (2, b""), (3, 0))  # all listings were short so far
    with crowd.Crowd(crowded, small, deaf=200, directory="/long"):
        served(crowded, small)
    served(crowded, small)


def test_more_writers_than_memory_are_slow_and_not_refused(tmp_path, java):
    """Three hundred stock writers at once, on datanodes with room for the streams of 150 each, and for the first nodes
    of 75 chains."""
    store = Store(tmp_path / "levada", "--memory", "64M")
    try:
        fs = java.mount(store.fs, SUPERUSER)
        writers = dict(systems=[fs.name] * 300, files=300, length=200_000, path="/many", without=[], timeout=300)
        written = fs.call("small-write", **writers)
        assert written["failed"] == {} and len(written["ms"]) == 300
        assert fs.call("small-verify", **writers)["failed"] == {}
        assert "refused" not in store.log() and "panicked" not in store.log(), store.log()
        assert store.resident() < MEMORY_MAX, store.resident()
        fs.unmount()
    finally:
        store.stop()
