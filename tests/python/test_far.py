"""A store far away: what takes round trips there, counted by the servers. How far it is, the file systems are told."""

import io
import random
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_batches import Requests

import levada

ROUND_TRIP = 0.24
GROUPS, ROWS = 20, 500
COLUMNS = [f"c{number}" for number in range(30)]
# Bytes that are worth a connection, and those that who looks for a footer gets at least: docs/adr/0030.
SHARE_LEN, END_LEN = 12 << 10, 64 << 10


def far_away(store, round_trip: float = ROUND_TRIP, **options) -> levada.LevadaFileSystem:
    return levada.LevadaFileSystem(
        store.host, store.port, round_trip=round_trip, skip_instance_cache=True, local_reads=False, **options
    )


def connections(length: int) -> int:
    return -(-length // SHARE_LEN)


def settled(requests: Requests) -> dict[str, int]:
    """A server counts an operation behind its last byte."""
    before, made = None, requests.made()
    while made != before:
        time.sleep(0.2)
        before, made = made, requests.made()
    return made


@pytest.fixture(scope="module")
def table() -> bytes:
    """Noise, which does not become shorter: 30 columns in 20 row groups, each piece of 4 kB."""
    chance = random.Random(5)
    columns = {name: [chance.random() for _ in range(GROUPS * ROWS)] for name in COLUMNS}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=ROWS, use_dictionary=False)
    return out.getvalue()


@pytest.fixture
def path(levada_fs, home, table) -> str:
    levada_fs.pipe_file(f"{home}/table.parquet", table)
    return f"{home}/table.parquet"


def test_two_columns_are_read_as_two_and_not_as_forty_pieces(levada_store, path, table):
    two = ["c3", "c17"]
    wanted = pq.read_table(io.BytesIO(table), columns=two)
    # The end of the file and two columns, each read by as many connections as it is worth; or each piece by itself.
    most_ahead = connections(END_LEN) + len(two) * connections(GROUPS * ROWS * 8)
    for ahead, most in [(True, most_ahead), (False, 50)]:
        fs = far_away(levada_store, ahead=ahead)
        requests = Requests(levada_store)
        assert pq.read_table(path, columns=two, filesystem=fs).equals(wanted)
        made = settled(requests)
        assert made["reads"] + made["vectored"] <= most, made
        assert ahead or made["reads"] >= 2 * GROUPS, made


def test_a_file_is_opened_once_by_who_looks_at_it_and_opens_it_twice(levada_store, path, table):
    # So far that this is done within eight round trips, however busy the machine is.
    fs = far_away(levada_store, round_trip=60.0)
    requests = Requests(levada_store)
    # pyarrow looks at the path, at what it is, opens it for the footer, looks again, and opens it for the rest.
    assert pq.read_table(path, columns=["c1"], filesystem=fs).num_rows == GROUPS * ROWS
    assert settled(requests)["openings"] == 1


def test_any_bytes_are_those_of_the_file(levada_store, path, table):
    chance = random.Random(3)
    fs = far_away(levada_store)
    with fs.open(path) as file:
        for _ in range(300):
            length = chance.choice([1, 200, 4_000, 30_000, 300_000])
            start = chance.randrange(len(table))
            if chance.random() < 0.2:
                start = max(0, len(table) - length)
            file.seek(start)
            assert file.read(length) == table[start : start + length]


def test_what_only_looks_like_a_footer_does_no_harm(levada_store, levada_fs, home, table):
    """Its length reaches beyond the file; it is cut; it names pieces that lie behind it."""
    footer_len = int.from_bytes(table[-8:-4], "little")
    footer = table[-8 - footer_len : -8]
    trailer = footer_len.to_bytes(4, "little") + b"PAR1"
    for number, data in enumerate([b"\xff\xff\xff\x7fPAR1", footer[50:] + trailer, footer + trailer, b"PAR1", b"x"]):
        levada_fs.pipe_file(f"{home}/{number}", data)
        with far_away(levada_store).open(f"{home}/{number}") as file:
            for start in [max(0, len(data) - 8), 0, len(data) // 2]:
                file.seek(start)
                assert file.read() == data[start:]


def test_own_changes_are_seen_at_once_and_those_of_others_soon(levada_store, levada_fs, path):
    fs = far_away(levada_store)
    assert fs.info(path)["size"] > 3
    fs.pipe_file(path, b"own")
    assert (fs.info(path)["size"], fs.cat_file(path)) == (3, b"own")
    levada_fs.pipe_file(path, b"of another")
    time.sleep(8 * ROUND_TRIP)
    assert fs.info(path)["size"] == 10
    with fs.open(path) as file:
        assert file.read() == b"of another"
    levada_fs.rm(path)
    fs.invalidate_cache()
    with pytest.raises(FileNotFoundError):
        fs.info(path)


def test_a_store_nearby_is_asked_each_time(levada_store, levada_fs, path):
    assert levada_fs.info(path)["size"] > 3
    far_away(levada_store).pipe_file(path, b"abc")
    assert levada_fs.info(path)["size"] == 3
