"""`levada doctor`: what is wrong with a store, and what it says to those who may not ask everything."""

import json
import os
import re
import tempfile

import pytest

from cli import levada
from roles import Roles, free_port
from store import eventually

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


def test_a_port_that_is_another_one_each_time_is_told(up, tmp_path):
    store = up("--processes")
    text = (store.directory / "conf/meta.toml").read_text()
    text, count = re.subn(r'(?m)^((?:rpc|http)_addr = ".*:)\d+"', r'\g<1>0"', text)
    assert count == 2, text
    (tmp_path / "meta.toml").write_text(text)
    done = levada(store.fs, "doctor", "--config", tmp_path / "meta.toml", "--json", check=False)
    ports = [finding for finding in map(json.loads, done.stdout.splitlines()) if finding["about"] == "ports"]
    assert ports and all(finding["level"] == "advice" and "at each start" in finding["found"] for finding in ports)


def test_a_datanode_that_runs_is_asked_whether_it_is_known(tmp_path):
    store = Roles(tmp_path / "store", 0)
    try:
        name = store.describe_datanode()
        file, http = store.directory / f"{name}.toml", free_port()
        file.write_text(f'http_addr = "127.0.0.1:{http}"\n' + file.read_text())

        def told() -> list[str]:
            done = levada(store.fs, "doctor", "--config", file, "--json", check=False)
            findings = map(json.loads, done.stdout.splitlines())
            return [finding["level"] for finding in findings if "this datanode" in finding["found"]]

        assert told() == [], "it does not run yet"
        store.start(name)
        assert told() == ["well"]
        store.kill("meta")
        eventually(lambda: told() == ["fault"], 30, "it waits for a metadata server")
    finally:
        store.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes two users")
def test_whose_port_it_is_may_be_unknown_to_another_user(up):
    """A server that runs is known by its open files, which no other user sees but root."""
    store = up("--processes")
    text = (store.directory / "conf/meta.toml").read_text()
    for key, address in ("rpc_addr", store.fs), ("http_addr", store.http):
        text, count = re.subn(f"(?m)^{key} = .*", f'{key} = "{address.split("//")[1]}"', text)
        assert count == 1, text
    stranger = "setpriv --reuid 54321 --regid 54321 --clear-groups".split()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        os.chmod(file.name, 0o644)
        cases = ([], "well", "is this server's"), (stranger, "unknown", "run this as root, who has it")
        for before, level, says in cases:
            done = levada(store.fs, "doctor", "--config", file.name, "--json", check=False, before=before)
            findings = [json.loads(line) for line in done.stdout.splitlines()]
            ports = [finding for finding in findings if finding["about"] == "ports"]
            assert len(ports) == 2, done.stderr
            assert all(finding["level"] == level and says in finding["found"] for finding in ports), ports
