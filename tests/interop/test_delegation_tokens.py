"""Delegation tokens as jobs have them: got by a ticket, used by a process that has nothing else."""

import os
import subprocess

import paths
import pytest

kerberos = pytest.importorskip("kerberos")

pytestmark = pytest.mark.levada


@pytest.fixture(scope="module", params=["authentication", "integrity", "privacy"])
def secure(request, tmp_path_factory):
    with kerberos.Secure(tmp_path_factory.mktemp("tokens") / request.param, request.param) as secure:
        admin = secure.user("nn")  # as the server itself: its principal has that short name
        secure.hdfs_dfs(admin, "-mkdir", "-p", "/home/ada")
        secure.hdfs_dfs(admin, "-chown", "ada", "/home/ada")
        yield secure


def token(secure, environment, what, file, check=True):
    """Gets, renews or cancels one."""
    command = secure.java("Tokens", what, secure.fs, str(file))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def with_tokens(secure, file):
    """A process that has the tokens in this file, and no ticket."""
    return {**secure.environment(kerberos.NONE), "HADOOP_TOKEN_FILE_LOCATION": str(file)}


def job(secure, file, *words, check=True):
    """`hdfs dfs` by the tokens alone."""
    command = secure.java("org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS={secure.fs}", *map(str, words))
    environment = with_tokens(secure, file)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def test_a_job_works_with_the_token_alone(secure, tmp_path):
    file = tmp_path / "tokens"
    ada, yarn = (secure.environment(secure.user(name)) for name in ("ada", "yarn"))
    token(secure, ada, "get", file)
    job(secure, file, "-mkdir", "-p", "/home/ada/out")
    listed = job(secure, file, "-ls", "/home/ada").stdout.splitlines()
    assert [line.split()[2] for line in listed if line.startswith("d")] == ["ada"], listed
    denied = job(secure, file, "-mkdir", "/out", check=False)
    assert denied.returncode != 0 and "Permission denied: user=ada" in denied.stderr, denied.stderr
    refused = token(secure, ada, "renew", file, check=False)
    assert refused.returncode != 0 and "non-matching renewer yarn" in refused.stderr, refused
    token(secure, yarn, "renew", file)
    # Our own client takes the same file.
    environment = {**os.environ, "HADOOP_TOKEN_FILE_LOCATION": str(file)}
    command = [str(paths.LEVADA), "ls", f"{secure.fs}/home/ada"]
    ours = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ours.returncode == 0 and "out" in ours.stdout, ours.stdout + ours.stderr
    other = subprocess.run([*command, "--user", "bob"], env=environment, capture_output=True, text=True, timeout=60)
    assert other.returncode == 1 and "is of ada, and nobody acts as bob by it" in other.stderr, (
        other.stdout + other.stderr
    )
    token(secure, ada, "cancel", file)
    gone = job(secure, file, "-ls", "/home/ada", check=False)
    assert gone.returncode != 0 and "the token is not valid" in gone.stderr, gone.stderr


def test_a_token_begets_none(secure, tmp_path):
    file = tmp_path / "tokens"
    token(secure, secure.environment(secure.user("ada")), "get", file)
    refused = token(secure, with_tokens(secure, file), "get", tmp_path / "more", check=False)
    assert refused.returncode != 0, refused
    assert "can be issued only with kerberos or web authentication" in refused.stderr, refused
