"""`/metrics` of metadata servers and datanodes, read by Prometheus' own parsers: the counts are those of the work that
was done."""

import os
import time
import urllib.request

import hdfs_native
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

import paths
from cli import levada

pytestmark = pytest.mark.levada

# Servers make a page at most ten times a second; whoever asks sooner gets the last one.
FRESH_S = 0.1
# As Prometheus 3 asks.
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


def scrape(address: str, accept: str = ACCEPT) -> dict:
    request = urllib.request.Request(f"{address}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=20) as answer:
        kind, text = answer.headers["Content-Type"], answer.read().decode()
    is_open = "openmetrics" in accept
    assert kind.startswith("application/openmetrics-text" if is_open else "text/plain; version=0.0.4"), kind
    families = list((openmetrics if is_open else prometheus)(text))
    assert len({family.name for family in families}) == len(families), "each family once"
    assert all(family.documentation for family in families)
    return {family.name: family for family in families}


def value(families: dict, family: str, sample: str, **labels) -> float:
    """The sum of the samples with these labels; a series is shown from its first event on."""
    samples = families[family].samples if family in families else []
    return sum(one.value for one in samples if one.name == sample and labels.items() <= one.labels.items())


def histograms_add_up(families: dict):
    """Buckets rise to the count, and the sum lies between what the bounds allow."""
    count = 0
    for family in (one for one in families.values() if one.type == "histogram"):
        series = {}
        for sample in family.samples:
            labels = tuple(sorted((key, text) for key, text in sample.labels.items() if key != "le"))
            found = series.setdefault(labels, {"buckets": []})
            if sample.name.endswith("_bucket"):
                found["buckets"].append((float(sample.labels["le"]), sample.value))
            else:
                found[sample.name.rsplit("_", 1)[1]] = sample.value
        for labels, found in series.items():
            bounds, counts = zip(*found["buckets"])
            assert list(bounds) == sorted(bounds) and bounds[-1] == float("inf"), (family.name, labels)
            assert list(counts) == sorted(counts) and counts[-1] == found["count"], (family.name, labels)
            each = [upper - lower for lower, upper in zip((0, *counts), counts)]
            least = sum(lower * many for lower, many in zip((0, *bounds), each))
            assert least <= found["sum"] * 1.0001, (family.name, labels, least)
            if each[-1] == 0:
                most = sum(bound * many for bound, many in zip(bounds[:-1], each))
                assert found["sum"] <= most * 1.0001, (family.name, labels, most)
            count += 1
    return count


@pytest.mark.parametrize("options", [(), ("--processes",)], ids=["one", "processes"])
def test_work_is_counted(up, tmp_path, options):
    store = up(*options)
    nodes = store.http_of_data
    assert len(nodes) == 3
    metad, datads = scrape(store.http), [scrape(node) for node in nodes]
    calls, errors = "levada_rpc_call_duration_seconds", "levada_rpc_call_errors"
    mkdirs = lambda families: value(families, calls, f"{calls}_count", protocol="ClientProtocol", method="mkdirs")
    of_op = lambda op, name: sum(value(families, *name, op=op) for families in datads)
    times = ("levada_transfer_duration_seconds", "levada_transfer_duration_seconds_count")
    amount = ("levada_transfer_bytes", "levada_transfer_bytes_total")
    before = (mkdirs(metad), of_op("write", times), of_op("write", amount), of_op("read", amount))

    for number in range(7):
        levada(store.fs, "mkdir", f"/counted{number}")
    length = 3 << 20
    (tmp_path / "file").write_bytes(os.urandom(length))
    (tmp_path / "small").write_bytes(b"x" * 1000)
    levada(store.fs, "put", tmp_path / "file", "/file")
    levada(store.fs, "put", tmp_path / "small", "/small")
    levada(store.fs, "get", "/file", tmp_path / "back")
    assert levada(store.fs, "mkdir", "/file/below", check=False).returncode != 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()
    assert hdfs_native.Client(store.fs).read("/file").read() == (tmp_path / "file").read_bytes()

    time.sleep(FRESH_S)
    metad, datads = scrape(store.http), [scrape(node) for node in nodes]
    assert mkdirs(metad) - before[0] >= 7
    assert value(metad, errors, f"{errors}_total", protocol="ClientProtocol") >= 1
    assert of_op("write", times) - before[1] >= 3, "one at each node of the chain"
    assert of_op("write", amount) - before[2] >= 3 * length
    assert of_op("read", amount) - before[3] >= length, "hdfs-native, over TCP"
    assert of_op("descriptors", times) >= 1, "levada, on the same machine"
    assert of_op("small_put", times) >= 1
    written = sum(value(one, "levada_disk_written_bytes", "levada_disk_written_bytes_total") for one in datads)
    assert written >= 3 * length
    syncs = "levada_disk_sync_duration_seconds"
    assert all(value(one, syncs, f"{syncs}_count") > 0 for one in datads)
    assert histograms_add_up(metad) > 5 and all(histograms_add_up(one) >= 3 for one in datads)

    assert value(metad, "levada_leader", "levada_leader") == 1
    assert value(metad, "levada_datanodes", "levada_datanodes", state="live") == 3
    assert all(value(one, "levada_registered", "levada_registered") == 1 for one in datads)
    ages = [one.value for one in metad["levada_datanode_heartbeat_age_seconds"].samples]
    assert len(ages) == 3 and all(0 <= age < 10 for age in ages)
    for families in [metad, *datads]:
        assert value(families, "process_cpu_seconds", "process_cpu_seconds_total") > 0
        assert 1e6 < value(families, "process_resident_memory_bytes", "process_resident_memory_bytes") < 4e9
    for address in [store.http, *nodes]:
        old = scrape(address, "text/plain")
        assert histograms_add_up(old) > 0
        assert {family.type for family in old.values()} <= {"counter", "gauge", "histogram"}


def test_names_are_documented(up):
    """Each family that a store at work shows has a row in docs/metrics.md; the unit tests of servers compare types and
    labels."""
    store = up()
    page = (paths.ROOT / "docs" / "metrics.md").read_text()
    rows = {
        line.split("|")[1].strip()
        for line in page.splitlines()
        if line.startswith("| levada_") or line.startswith("| process_")
    }
    for address in [store.http, *store.http_of_data]:
        for family in scrape(address).values():
            name = family.name + ("_total" if family.type == "counter" else "")
            assert name in rows, name
