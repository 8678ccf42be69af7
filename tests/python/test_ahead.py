"""Files far away by the learned cache: correct bytes whatever a program does, few turn-arounds, bounded waste."""

import concurrent.futures
import io
import os
import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from test_far import COLUMNS, GROUPS, ROUND_TRIP, ROWS, far_away, path, table  # noqa: F401: fixtures

import levada

# What may be in vain at first, and of a hundred bytes that are read: docs/adr/0032.
WASTE_FLOOR, WASTE_SHARE = 16 << 20, 0.1


def check(statistics: levada.Statistics) -> None:
    assert statistics.wasted_bytes <= WASTE_FLOOR + WASTE_SHARE * statistics.used_bytes
    assert statistics.memory_bytes <= statistics.memory_bytes_max
    assert statistics.hits + statistics.waits == statistics.reads


def group_of(table: bytes, columns: list[str], group: int) -> pa.Table:
    return pq.ParquetFile(io.BytesIO(table)).read_row_group(group, columns=columns)


def runs(store, path, read) -> list[levada.Statistics]:  # noqa: F811
    """Two of them, each as another process has it: nothing is shared but what lies on the disk."""
    found = []
    for _ in range(2):
        with far_away(store).open(path) as file:
            read(file)
            check(file.statistics)
            found.append(file.statistics)
    assert [(one.has_layout, one.has_profile, one.wasted_bytes) for one in found] == [(1, 0, 0), (1, 1, 0)], found
    return found


def test_the_second_run_has_its_columns_with_the_footer(levada_store, path, table):  # noqa: F811
    two = ["c3", "c17"]

    def read(file):
        reader = pq.ParquetFile(file)
        for group in range(GROUPS):
            assert reader.read_row_group(group, columns=two).equals(group_of(table, two, group))

    found = runs(levada_store, path, read)
    assert [one.turn_arounds for one in found] == [3, 1], "the end of the file, and a column each; or all at once"


def test_threads_of_pyarrow_take_row_groups_in_any_order(levada_store, path, table):  # noqa: F811
    two = ["c3", "c17"]
    wanted = pq.read_table(io.BytesIO(table), columns=two)

    def read(file):
        assert pq.read_table(file, columns=two).equals(wanted)

    first, second = runs(levada_store, path, read)
    assert second.turn_arounds == 1 and first.turn_arounds < GROUPS, (first, second)


def test_whose_profile_it_is(levada_store, path):  # noqa: F811
    def has_profile(**options) -> bool:
        with far_away(levada_store).open(path, **options) as file:
            pq.read_table(file, columns=["c1"])
            return bool(file.statistics.has_profile)

    assert [has_profile(profile=None), has_profile(profile=None)] == [False, False]
    assert [has_profile(profile="events"), has_profile(profile="events")] == [False, True]
    assert [has_profile(profile="others"), has_profile(), has_profile()] == [False, False, True]


def test_what_one_user_has_read_the_next_has_at_once(levada_store, path, table, tmp_path, monkeypatch):  # noqa: F811
    two = ["c3", "c17"]
    wanted = pq.read_table(io.BytesIO(table), columns=two)
    found = []
    for home in "ab":
        # Each has his own, and nothing in it.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
        with far_away(levada_store).open(path) as file:
            assert pq.read_table(file, columns=two).equals(wanted)
            check(file.statistics)
            found.append(file.statistics)
            # Closing does not wait for that.
            file._reader.share().wait()
    assert [one.has_profile for one in found] == [0, 1]
    assert found[1].turn_arounds == 1 < found[0].turn_arounds, found


def test_nothing_is_read_ahead_unless_it_is_to_be(levada_store, levada_fs, path):  # noqa: F811
    with levada_fs.open(path) as near, far_away(levada_store, ahead=False).open(path) as told:
        assert near.statistics is None and told.statistics is None
    with levada.open(f"levada://{levada_store.host}:{levada_store.port}{path}", round_trip=ROUND_TRIP) as far:
        assert far.read(4) == b"PAR1" and far.statistics.reads == 1


def test_a_profile_is_kept_when_python_ends(levada_store, path):  # noqa: F811
    program = """
import sys, levada
import pyarrow.parquet as pq
host, port, path = sys.argv[1:]
fs = levada.LevadaFileSystem(host, int(port), round_trip=0.24, local_reads=False)
file = fs.open(path)
pq.ParquetFile(file).read(columns=["c5"])
print(file.statistics.has_profile)
# It is not closed.
"""
    command = [sys.executable, "-c", program, levada_store.host, str(levada_store.port), path]
    said = [subprocess.run(command, capture_output=True, text=True, timeout=100) for _ in range(2)]
    assert [(one.stdout, one.stderr, one.returncode) for one in said] == [("0\n", "", 0), ("1\n", "", 0)]
    kept = os.path.join(os.environ["XDG_CACHE_HOME"], "levada", "profiles")
    assert {os.stat(os.path.join(kept, name)).st_mode & 0o777 for name in os.listdir(kept)} == {0o600}


def test_columns_that_change_half_way(levada_store, path, table):  # noqa: F811
    with far_away(levada_store).open(path) as file:
        reader = pq.ParquetFile(file)
        for group in range(GROUPS):
            columns = ["c2", "c9"] if group < GROUPS // 2 else ["c4"]
            assert reader.read_row_group(group, columns=columns).equals(group_of(table, columns, group))
            check(file.statistics)


def test_going_back_and_jumping(levada_store, path, table):  # noqa: F811
    chance = random.Random(7)
    with far_away(levada_store).open(path) as file:
        reader = pq.ParquetFile(file)
        for group in [*range(5), *range(5), *(chance.randrange(GROUPS) for _ in range(20))]:
            columns = [chance.choice(COLUMNS)]
            assert reader.read_row_group(group, columns=columns).equals(group_of(table, columns, group))
            check(file.statistics)


def test_several_threads(levada_store, path, table):  # noqa: F811
    with far_away(levada_store).open(path) as file:

        def read(seed: int) -> bool:
            chance = random.Random(seed)
            ranges = [(chance.randrange(len(table)), chance.choice([1, 3000, 90_000])) for _ in range(20)]
            found = file.read_ranges(ranges)
            buffer = bytearray(500)
            file.readinto_ranges([(9000, buffer)])
            return buffer == table[9000:9500] and found == [table[start : start + size] for start, size in ranges]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(40)))
        check(file.statistics)


def test_a_file_of_another_kind_by_this_name(levada_store, levada_fs, home):
    garbage = random.Random(1).randbytes(300_000)
    for number, data in enumerate([garbage, garbage + b"PAR1", b"PAR1" + garbage + b"\xff\xff\x03\x00PAR1"]):
        levada_fs.pipe_file(f"{home}/{number}.parquet", data)
        with far_away(levada_store).open(f"{home}/{number}.parquet") as file:
            for start in [len(data) - 8, 0, 150_000]:
                file.seek(start)
                assert file.read() == data[start:]
            assert file.statistics.has_layout == 0
            check(file.statistics)


def test_a_file_replaced_between_two_runs(levada_store, levada_fs, path, table):  # noqa: F811
    assert pq.read_table(path, columns=["c3"], filesystem=far_away(levada_store)).num_rows == GROUPS * ROWS
    out = io.BytesIO()
    other = pa.table({name: range(700) for name in COLUMNS})
    pq.write_table(other, out, row_group_size=100)
    levada_fs.pipe_file(path, out.getvalue())
    fs = far_away(levada_store)
    assert pq.read_table(path, columns=["c3", "c4"], filesystem=fs).equals(other.select(["c3", "c4"]))
    check(fs.statistics)


def test_statistics_are_for_people_too(levada_store, path):  # noqa: F811
    fs = far_away(levada_store)
    with fs.open(path) as file:
        file.read(100)
        # Whether it waited or found what the layout's search had brought is a matter of moments.
        assert "1 of 100 B" in repr(file.statistics)
        assert file.statistics._repr_html_().startswith("<table>")
    assert (fs.statistics.reads, fs.statistics.read_bytes) == (file.statistics.reads, file.statistics.read_bytes)


@pytest.fixture
def stripes(levada_fs, home) -> tuple[str, bytes]:
    """Noise, in stripes of some thousand rows."""
    chance = random.Random(6)
    out = io.BytesIO()
    columns = {name: [chance.random() for _ in range(40_000)] for name in COLUMNS}
    orc.write_table(pa.table(columns), out, stripe_size=1 << 20, compression="uncompressed")
    levada_fs.pipe_file(f"{home}/table.orc", out.getvalue())
    return f"{home}/table.orc", out.getvalue()


def test_stripes_of_orc_are_asked_together(levada_store, stripes):
    """pyarrow reads of each stripe its footer, and then each column by itself."""
    path, data = stripes
    two = ["c3", "c17"]
    wanted, count = orc.read_table(io.BytesIO(data), columns=two), orc.ORCFile(io.BytesIO(data)).nstripes
    assert count > 5

    def read(file):
        assert orc.read_table(file, columns=two).equals(wanted)

    first, second = runs(levada_store, path, read)
    # The end of the file, the footers of all stripes, and each column; or all but the footers at once: an opening
    # remembers 16 reads, and there are more footers.
    assert second.turn_arounds <= 2 < first.turn_arounds <= count, (first, second, count)


@pytest.fixture
def tree(levada_fs, home, tmp_path):
    """The path of a tree of 20 branches, and what each has beside its number."""
    uproot = pytest.importorskip("uproot")
    import numpy as np

    numbers = np.random.default_rng(3).random(40_000)
    with uproot.recreate(tmp_path / "made.root", compression=None) as file:
        tree = file.mktree("events", {f"b{branch}": "f8" for branch in range(20)})
        for part in range(40):
            tree.extend({f"b{branch}": numbers[part * 1000 : part * 1000 + 1000] + branch for branch in range(20)})
    levada_fs.put_file(str(tmp_path / "made.root"), f"{home}/made.root")
    return f"{home}/made.root", numbers


def test_uproot_reads_a_step_at_once(levada_store, tree):
    uproot = pytest.importorskip("uproot")
    import numpy as np

    import levada.uproot

    path, numbers = tree
    address = f"levada://{levada_store.host}:{levada_store.port}{path}:events"
    turns = []
    for _ in range(2):
        options = {"round_trip": ROUND_TRIP, "local_reads": False, "skip_instance_cache": True}
        with uproot.open(address, handler=levada.uproot.Source, **options) as tree:
            found = [step["b4"] for step in tree.iterate(["b4", "b11"], step_size=5000, library="np")]
            assert (np.concatenate(found) == numbers + 4).all()
            check(tree.file.source.statistics)
            assert tree.file.source.statistics.has_layout == 1
            turns.append(tree.file.source.statistics.turn_arounds)
        assert tree.file.source.closed
    assert turns[1] < turns[0], turns


def test_uproot_by_fsspec_reads_by_the_cache(levada_store, tree):
    """As it is, with no source of ours: by the names of parts."""
    uproot = pytest.importorskip("uproot")
    import numpy as np

    path, numbers = tree
    address = f"levada://{levada_store.host}:{levada_store.port}{path}:events"
    options = {"round_trip": ROUND_TRIP, "local_reads": False, "skip_instance_cache": True}
    with uproot.open(address, **options) as tree:
        steps = [step["b4"] for step in tree.iterate(["b4", "b11"], step_size=2000, library="np")]
        assert (np.concatenate(steps) == numbers + 4).all()
        found = tree.file.source._fs.statistics
        check(found)
        assert found.has_layout == 1 and found.hits > len(steps) > found.turn_arounds, found
