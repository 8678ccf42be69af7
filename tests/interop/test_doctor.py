"""`levada doctor`: what is wrong with a store, and what it says to those who may not ask everything."""

import json

import pytest

from cli import levada

pytestmark = pytest.mark.levada


def examined(url, user=None) -> tuple[int, list[dict]]:
    done = levada(url, "doctor", "--json", user=user, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_what_an_administrator_has_wait_is_told_with_its_end(up):
    store = up()
    maintained, drained = (":".join(map(str, address)) for address in store.transfer[:2])
    assert not any("until" in finding["found"] for finding in examined(store.fs)[1])
    levada(store.fs, "admin", "repair", "hold", "--for", "1h")
    levada(store.fs, "admin", "datanode", "maintenance", maintained, "--for", "2h")
    levada(store.fs, "admin", "datanode", "drain", drained)
    code, findings = examined(store.fs)
    told = [f"{finding['about']}: {finding['found']}" for finding in findings if finding["level"] == "advice"]
    assert code == 0 and any(text.startswith("repair: it is held until 2") for text in told), told
    assert any(text.startswith(f"datanodes: {maintained} is in maintenance until 2") for text in told), told
    assert any(text.startswith(f"datanodes: {drained} is ") and "drained" in text for text in told), told


def test_what_a_user_may_not_ask_is_no_fault_and_not_well(up):
    code, findings = examined(up().fs, "ada")
    levels = {level: {one["about"] for one in findings if one["level"] == level} for level in ("unknown", "fault")}
    assert levels == {"unknown": {"clocks", "versions", "group", "datanodes", "disks", "repair"}, "fault": set()}
    assert code == 1, "who asks each night by a script is to notice"


@pytest.mark.parametrize("url", ["hdfs://127.0.0.1:1", "hdfs://127.0.0.1:1,127.0.0.1:2"])
def test_a_store_that_is_down_is_told_with_where_it_was_looked_for(url):
    code, findings = examined(url)
    assert code == 1 and all(finding["level"] == "fault" for finding in findings)
    assert f"{url} (from --url or $LEVADA_URL)" in findings[0]["found"]
    assert "cannot reach" in findings[-1]["found"]


def test_a_port_that_is_another_one_each_time_is_told(up):
    store = up("--processes")
    done = levada(store.fs, "doctor", "--config", store.directory / "conf/meta.toml", "--json", check=False)
    ports = [finding for finding in map(json.loads, done.stdout.splitlines()) if finding["about"] == "ports"]
    assert ports and all(finding["level"] == "advice" and "at each start" in finding["found"] for finding in ports)
