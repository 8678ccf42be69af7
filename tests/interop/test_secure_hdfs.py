"""Our own client at an Apache HDFS whose data transfer is protected: it finds out how, without a configuration."""

import sys

import pytest

import content
import paths
from cli import levada
from kerberos import NONE, Secure
from paths import BLOCK

sys.path.insert(0, str(paths.ROOT / "bench" / "peers" / "hdfs"))
from protections import SUITE, Kerberized  # noqa: E402

pytestmark = [
    pytest.mark.levada,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (paths.SERVER_LIB.parent / "web").exists(), reason="no Apache HDFS: bench/peers/hdfs/fetch.sh"
    ),
]

ENCRYPTS = {"dfs.encrypt.data.transfer": "true"}
# What servers are told: dfs.data.transfer.protection, a suite of ciphers, and more.
MODES = {
    "integrity": ("integrity", None, {}),
    "privacy": ("privacy", None, {}),
    "encrypted": ("privacy", None, ENCRYPTS),
    "encrypted by AES": ("privacy", SUITE, ENCRYPTS),
    "encrypted by rc4": ("privacy", None, {**ENCRYPTS, "dfs.encrypt.data.transfer.algorithm": "rc4"}),
}


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with Secure(tmp_path_factory.mktemp("secure") / "hdfs") as secure:
        secure.kdc.principal("dn/localhost@EXAMPLE.COM")
        yield secure


@pytest.mark.parametrize("mode", MODES)
def test_files_are_written_and_read(secure, mode, tmp_path):
    protection, suite, more = MODES[mode]
    superuser = tmp_path / "nn.ccache"
    secure.kdc.kinit("nn/localhost", secure.keytab, superuser)
    (tmp_path / "hdfs").mkdir()
    hdfs = Kerberized(secure, tmp_path / "hdfs", protection, suite, datanodes=1, more=more)
    try:
        by = lambda cache: {**secure.kdc.environment, "KRB5CCNAME": str(cache)}
        data = content.make(2 * BLOCK + 12_345)
        local, back = tmp_path / "f", tmp_path / "back"
        local.write_bytes(data)
        size = ["--replication", "1", "--block-size", str(BLOCK)]
        levada(hdfs.fs, "put", *size, local, "/f", environment=by(superuser))
        levada(hdfs.fs, "get", "/f", back, environment=by(superuser))
        assert back.read_bytes() == data
        # Stock Java reads what was written, and ours what Java wrote.
        secure.fs, levada_fs = hdfs.fs, secure.fs
        try:
            options = ["-D", f"dfs.data.transfer.protection={protection}"]
            secure.hdfs_dfs(superuser, "-get", "/f", tmp_path / "by-java", options=options)
            secure.hdfs_dfs(superuser, "-D", "dfs.replication=1", "-put", local, "/g", options=options)
        finally:
            secure.fs = levada_fs
        assert (tmp_path / "by-java").read_bytes() == data
        assert levada(hdfs.fs, "cat", "/g", environment=by(superuser), text=False).stdout == data
        refused = levada(hdfs.fs, "ls", "/", environment=by(NONE), check=False)
        assert refused.returncode != 0, refused.stdout
    finally:
        hdfs.stop()
