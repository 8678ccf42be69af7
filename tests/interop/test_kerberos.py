"""Tickets: stock clients log in at a real KDC, and whoever has none stays outside."""

import subprocess

import pytest

from kerberos import NONE, OTHER, Secure
from others import RemoteError
from secure_group import SERVER, SecureGroup

pytestmark = pytest.mark.levada


@pytest.fixture(scope="module", params=["authentication", "integrity", "privacy"])
def secure(request, tmp_path_factory):
    with Secure(tmp_path_factory.mktemp("secure") / request.param, request.param) as secure:
        yield secure


def test_a_ticket_lets_a_user_in_by_its_short_name(secure):
    secure.hdfs_dfs(secure.superuser, "-mkdir", "-p", "/home")
    secure.hdfs_dfs(secure.superuser, "-chmod", "777", "/home")
    secure.hdfs_dfs(secure.user("ada"), "-mkdir", "/home/ada")
    listed = secure.hdfs_dfs(secure.user("bob"), "-ls", "/home").stdout.splitlines()
    assert [line.split()[2] for line in listed if line.startswith("d")] == ["ada"], listed
    denied = secure.hdfs_dfs(secure.user("bob"), "-mkdir", "/home/ada/x", check=False)
    assert denied.returncode != 0 and "Permission denied: user=bob" in denied.stderr


def test_without_a_ticket_nobody_gets_in(secure):
    refused = secure.hdfs_dfs(NONE, "-ls", "/", check=False)
    assert (
        refused.returncode != 0 and "Client cannot authenticate via:[TOKEN, KERBEROS]" in refused.stderr
    ), refused.stderr


def test_clients_that_are_not_set_up_are_told_what_is_asked(secure):
    refused = secure.simple("-ls", "/")
    assert refused.returncode != 0, refused.stdout
    assert "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]" in refused.stderr, refused.stderr


def test_a_client_that_expects_another_server_does_not_go_on(secure):
    refused = secure.hdfs_dfs(secure.user("ada"), "-ls", "/", check=False, principal="hdfs/_HOST@EXAMPLE.COM")
    assert refused.returncode != 0 and "Server has invalid Kerberos principal" in refused.stderr, refused.stderr


def test_a_client_that_asks_for_less_protection_is_refused(secure):
    if secure.protection == "authentication":
        pytest.skip("there is no less")
    refused = secure.hdfs_dfs(secure.user("ada"), "-ls", "/", check=False, protection="authentication")
    assert refused.returncode != 0, refused.stdout
    assert "No common protection layer between client and server" in refused.stderr, refused.stderr


def test_keys_change_while_the_server_runs(secure):
    ada = secure.user("ada")
    secure.hdfs_dfs(ada, "-ls", "/")
    secure.kdc.rotate("nn/localhost@EXAMPLE.COM")
    refused = secure.hdfs_dfs(secure.user("ada"), "-ls", "/", check=False)
    assert refused.returncode != 0 and "Specified version of key is not available" in refused.stderr, refused.stderr
    secure.kdc.keytab(secure.keytab, "nn/localhost@EXAMPLE.COM")
    secure.hdfs_dfs(secure.user("ada"), "-ls", "/")


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    """Servers that go by the machine's name, `nn/_HOST`, and so do clients."""
    with SecureGroup(tmp_path_factory.mktemp("group") / "secure") as group:
        group.hdfs_dfs(group.superuser, "-mkdir", "-p", "/home")
        group.hdfs_dfs(group.superuser, "-chmod", "777", "/home")
        yield group


def test_a_user_of_a_realm_that_is_trusted_has_the_name_that_the_rules_give(group):
    group.hdfs_dfs(group.user(f"ada@{OTHER}"), "-mkdir", "/home/theirs")
    group.hdfs_dfs(group.user("ada"), "-mkdir", "/home/ours")
    listed = [line.split() for line in group.hdfs_dfs(group.user("ada"), "-ls", "/home").stdout.splitlines()]
    owners = {words[-1]: words[2] for words in listed if words[0].startswith("d")}
    assert owners["/home/theirs"] == "ada-of-other" and owners["/home/ours"] == "ada", owners
    refused = group.hdfs_dfs(group.user(f"bob@{OTHER}"), "-ls", "/", check=False)
    assert refused.returncode != 0 and f"No rules applied to bob@{OTHER}" in refused.stderr, refused.stderr


def test_hdfs_native_logs_in_by_a_ticket(group):
    native = group.native(group.with_ticket(group.user("eve")))
    try:
        native.call("mkdir", path="/home/native/a")
        native.call("rename", path="/home/native/a", to="/home/native/b")
        assert native.call("list", path="/home/native") == ["b"]
        owner = group.hdfs_dfs(group.user("eve"), "-stat", "%u", "/home/native").stdout.strip()
        assert owner == "eve", owner
        assert native.call("remove", path="/home/native/b")
    finally:
        native.stop()


def test_a_client_whose_clock_is_wrong_is_told(group):
    late = group.user("late")
    group.kdc.ticket(late, SERVER)  # the KDC would say the same
    environment = {**group.kdc.environment_at("+10m"), "KRB5CCNAME": str(late)}
    native = group.native(environment)
    try:
        with pytest.raises(RemoteError, match="Clock skew too great"):
            native.call("list", path="/")
    finally:
        native.stop()


def test_clients_go_on_with_the_server_that_leads_next(group, tmp_path):
    """One that is logged in, and jobs that have a token alone, whichever server gave it out."""
    ada, file = group.user("ada"), tmp_path / "tokens"
    get = group.java_command("Tokens", "get", "hdfs://levada", str(file))
    done = subprocess.run(get, env=group.with_ticket(ada), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    with_token = {**group.with_ticket(NONE), "HADOOP_TOKEN_FILE_LOCATION": str(file)}
    group.hdfs_dfs(None, "-mkdir", "/home/by-token", environment=with_token)
    cache = {"hadoop.security.kerberos.ticket.cache.path": ada}
    with group.jvm(ada) as jvm:
        fs = jvm.mount("hdfs://levada", "ada", cache)
        fs.call("mkdirs", path="/home/before")
        leader = group.leader()
        group.kill(leader)
        fs.call("mkdirs", path="/home/after")
        assert group.leader() != leader
        group.hdfs_dfs(None, "-mkdir", "/home/by-token/after", environment=with_token)
        assert fs.call("stat", path="/home/by-token/after")["owner"] == "ada"
        group.start(leader)


def test_a_server_that_the_kdc_does_not_know_is_named(group):
    """The last one: the server's key is another one afterwards."""
    ada = group.user("ada")
    group.kdc.remove(SERVER)
    refused = group.hdfs_dfs(ada, "-ls", f"hdfs://{group.addrs[0]}/", check=False)
    assert refused.returncode != 0 and "Server not found in Kerberos database" in refused.stderr, refused.stderr
