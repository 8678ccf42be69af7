"""`hdfs fsck` where callers need tickets: it asks over HTTP or HTTPS, and proves there who asks (SPNEGO)."""

import subprocess
import urllib.error
import urllib.request

import pytest

import paths
from kerberos import CONF, NONE, Secure, SecureUp

pytestmark = [pytest.mark.levada, pytest.mark.timeout(300)]


def address(secure) -> str:
    """Of the page, by the name that tickets are for."""
    return secure.roles.http.removeprefix("https://").removeprefix("http://").replace("127.0.0.1", "localhost")


def fsck(secure, cache, *words, options=(), conf=CONF):
    """Gives the exit code and all that was printed."""
    command = secure.java("org.apache.hadoop.hdfs.tools.DFSck", "-D", f"fs.defaultFS={secure.fs}", *options, *words)
    at = command.index("-cp") + 1
    command[at] = f"{conf}:{CONF}:{paths.JAVA_CONF}:{paths.SERVER_LIB}/*"
    done = subprocess.run(
        command,
        env=secure.environment(cache),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def over_http(secure):
    return ["-D", f"dfs.namenode.http-address={address(secure)}"]


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with Secure(tmp_path_factory.mktemp("secure") / "fsck") as secure:
        secure.hdfs_dfs(secure.superuser, "-mkdir", "/home")
        secure.hdfs_dfs(secure.superuser, "-chmod", "777", "/home")
        secure.hdfs_dfs(secure.user("ada"), "-mkdir", "/home/ada")
        secure.hdfs_dfs(secure.user("ada"), "-chmod", "700", "/home/ada")
        yield secure


def test_a_ticket_says_who_asks(secure):
    code, out = fsck(secure, secure.user("ada"), "/home/ada", options=over_http(secure))
    assert code == 0, out
    assert "FSCK started by ada (auth:KERBEROS) from /127.0.0.1 for path /home/ada at " in out, out
    assert "The filesystem under path '/home/ada' is HEALTHY" in out, out
    code, out = fsck(secure, secure.user("bob"), "/home/ada", options=over_http(secure))
    assert code != 0 and "Permission denied: user=bob" in out and "Fsck on path '/home/ada' FAILED" in out, out


def test_without_a_ticket_nobody_asks(secure):
    _code, out = fsck(secure, NONE, "/", options=over_http(secure))
    assert "Client cannot authenticate via:[TOKEN, KERBEROS]" in out, out
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{address(secure)}/fsck?ugi=root&path=/", timeout=10)
    assert refused.value.code == 401 and refused.value.headers["WWW-Authenticate"] == "Negotiate"
    assert b"get one with kinit" in refused.value.read()


def curl(secure, cache, query: str) -> str:
    command = ["curl", "-s", "--negotiate", "-u", ":", f"http://{address(secure)}/fsck?{query}"]
    done = subprocess.run(command, env=secure.environment(cache), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_ticket_counts_and_not_what_the_query_says(secure):
    ada = secure.user("ada")
    assert "is HEALTHY" in curl(secure, ada, "path=/home/ada")
    for query in ("ugi=root&path=/", "ugi=ada&doas=root&path=/"):
        refused = curl(secure, ada, query)
        assert "User: ada@EXAMPLE.COM is not allowed to impersonate root" in refused, refused
        assert refused.endswith("Fsck on path '/' FAILED"), refused


def test_a_ticket_for_another_server_is_refused(secure):
    """The KDC knows the server by a new key, and the server does not yet: what the client shows says so."""
    ada = secure.user("ada")
    secure.kdc.rotate("HTTP/localhost@EXAMPLE.COM")
    code, out = fsck(secure, ada, "/home/ada", options=over_http(secure))
    assert code != 0 and "Specified version of key is not available" in out, out
    secure.kdc.keytab(secure.keytab, "HTTP/localhost@EXAMPLE.COM")
    assert fsck(secure, secure.user("ada"), "/home/ada", options=over_http(secure))[0] == 0


def trusting(directory, certificate):
    """What a client is given to trust servers whose certificates are, or are signed by, this one."""
    trusted, conf = directory / "trusted.p12", directory / "conf"
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "web", "-file", str(certificate), "-keystore", str(trusted),
         "-storetype", "PKCS12", "-storepass", "changeit"],
        check=True, capture_output=True,
    )  # fmt: skip
    settings = {"location": trusted, "password": "changeit", "type": "PKCS12"}
    rows = "".join(
        f"<property><name>ssl.client.truststore.{name}</name><value>{value}</value></property>\n"
        for name, value in settings.items()
    )
    conf.mkdir()
    (conf / "ssl-client.xml").write_text(f"<configuration>\n{rows}</configuration>\n")
    return conf


def over_https(secure):
    return ["-D", "dfs.http.policy=HTTPS_ONLY", "-D", f"dfs.namenode.https-address={address(secure)}"]


def test_over_https(tmp_path):
    """By an ordinary certificate, for the name that tickets are for, which the client trusts."""
    certificate, key = tmp_path / "web.crt", tmp_path / "web.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    conf = trusting(tmp_path, certificate)
    https = f'[https]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    with Secure(tmp_path / "store", more=https) as secure:
        options = over_https(secure)
        code, out = fsck(secure, secure.superuser, "/", options=options, conf=conf)
        assert code == 0 and "The filesystem under path '/' is HEALTHY" in out, out
        assert "FSCK started by root (auth:KERBEROS)" in out, out
        refused = fsck(secure, secure.user("ada"), "-delete", "/", options=options, conf=conf)
        assert refused[0] != 0 and "not served" in refused[1], refused[1]


def test_by_the_certificate_that_up_made(tmp_path):
    """Its servers' certificates name localhost, so who trusts its authority is let in."""
    with SecureUp(tmp_path / "store") as secure:
        secure.hdfs_dfs(secure.superuser, "-put", str(tmp_path / "store" / "server.keytab"), "/file")
        conf = trusting(tmp_path, secure.roles.directory / "certificates" / "ca" / "ca.crt")
        code, out = fsck(secure, secure.superuser, "/", "-files", "-blocks", options=over_https(secure), conf=conf)
        assert code == 0 and "The filesystem under path '/' is HEALTHY" in out and "/file" in out, out
