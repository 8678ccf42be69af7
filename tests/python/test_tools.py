"""The tools of data scientists, as they are: each writes a table, and reads two of its columns."""

import pytest


@pytest.fixture
def address(levada_store, home):
    return f"levada://{levada_store.host}:{levada_store.port}{home}"


@pytest.fixture
def table():
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table({name: [place * number for place in range(50_000)] for number, name in enumerate("abcd")})


def test_pyarrow(levada_fs, home, table):
    from pyarrow import dataset, parquet

    parquet.write_table(table, f"{home}/t.parquet", filesystem=levada_fs)
    found = parquet.read_table(f"{home}/t.parquet", columns=["b", "d"], filesystem=levada_fs)
    assert found == table.select(["b", "d"])
    dataset.write_dataset(table, f"{home}/set", format="parquet", filesystem=levada_fs)
    found = dataset.dataset(f"{home}/set", format="parquet", filesystem=levada_fs)
    assert found.to_table(columns=["c"], filter=dataset.field("b") < 7)["c"].to_pylist() == [0, 2, 4, 6, 8, 10, 12]


def test_pandas(address):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": range(1000), "b": [str(n) for n in range(1000)]})
    frame.to_parquet(f"{address}/t.parquet")
    assert pandas.read_parquet(f"{address}/t.parquet", columns=["b"])["b"].tolist() == frame["b"].tolist()
    frame.to_csv(f"{address}/t.csv", index=False)
    assert pandas.read_csv(f"{address}/t.csv")["a"].sum() == 499_500


def test_polars(levada_fs, home):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": range(1000), "b": range(1000, 2000)})
    with levada_fs.open(f"{home}/t.parquet", "wb") as file:
        frame.write_parquet(file)
    with levada_fs.open(f"{home}/t.parquet") as file:
        assert polars.read_parquet(file, columns=["b"])["b"].sum() == 1_499_500


def test_duckdb(levada_fs, levada_store, home, table):
    duckdb = pytest.importorskip("duckdb")
    from pyarrow import parquet

    parquet.write_table(table, f"{home}/t.parquet", filesystem=levada_fs)
    database = duckdb.connect()
    database.register_filesystem(levada_fs)
    found = database.sql(f"select sum(b), max(d) from read_parquet('levada://{home}/t.parquet')").fetchall()
    assert found == [(sum(range(50_000)), 3 * 49_999)]
