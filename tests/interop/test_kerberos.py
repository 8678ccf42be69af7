"""Tickets: stock clients log in at a real KDC, and whoever has none stays outside."""

import pytest

from kerberos import NONE, Secure

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
    assert refused.returncode != 0 and "Client cannot authenticate via:[TOKEN, KERBEROS]" in refused.stderr, refused.stderr


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
