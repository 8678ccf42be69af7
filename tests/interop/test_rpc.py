"""Hadoop RPC to the letter, with a client of our own that may do what no stock client does."""

import socket
import time

import pytest

from rawrpc import CLIENT, ERROR, FATAL, SUCCESS, Connection, Zigzag, delimited, fields, message
from store import SUPERUSER, address


@pytest.fixture
def connect(store):
    made = []

    def open_(**how):
        how.setdefault("user", SUPERUSER)
        made.append(Connection(address(store.fs), **how))
        return made[-1]

    yield open_
    for one in made:
        one.socket.close()


def path(text) -> bytes:
    return message((1, text))


def delete(text) -> bytes:
    return message((1, text), (2, 1))


def mkdirs(text) -> bytes:
    return message((1, text), (2, message((1, 0o755))), (3, 1))


class TestFrames:
    def test_an_empty_answer_is_a_message_of_no_bytes(self, connect, home):
        answer = connect().call(7, "getFileInfo", path(f"{home}/missing"))
        assert (answer.status, answer.call_id, answer.body) == (SUCCESS, 7, b"")

    def test_an_error_is_the_header_alone(self, connect, home):
        c = connect()
        answer = c.call(8, "getBlockLocations", message((1, f"{home}/missing"), (2, 0), (3, 10)))
        assert (answer.status, answer.kind, answer.body) == (ERROR, "java.io.FileNotFoundException", None)
        assert answer.client_id in (b"", c.client_id)
        assert c.call(9, "getFileInfo", path("/")).status == SUCCESS  # the connection goes on

    def test_many_calls_at_once_are_all_answered(self, connect):
        c = connect()
        for i in range(300):
            c.send(i, "getFileInfo", path("/"))
        assert sorted(c.receive().call_id for _ in range(300)) == list(range(300))

    def test_everything_in_one_segment_and_byte_by_byte(self, connect, store):
        whole = b"hrpc\x09\x00\x00"
        for body in (
            delimited(message((1, 2), (2, 0), (3, Zigzag(-3)), (4, b"c" * 16), (5, Zigzag(-1))))
            + delimited(message((2, message((1, "root"))), (3, CLIENT))),
            delimited(message((1, 2), (2, 0), (3, Zigzag(0)), (4, b"c" * 16), (5, Zigzag(0))))
            + delimited(message((1, "getFileInfo"), (2, CLIENT), (3, 1)))
            + delimited(path("/")),
        ):  # fmt: skip
            whole += len(body).to_bytes(4, "big") + body
        for step in (len(whole), 1):
            with socket.create_connection(address(store.fs), 5) as s:
                s.settimeout(10)
                for start in range(0, len(whole), step):
                    s.sendall(whole[start : start + step])
                size = int.from_bytes(s.recv(4), "big")
                assert 0 < size < 1000

    def test_pings_are_not_answered(self, connect):
        c = connect()
        for _ in range(5):
            c.ping()
        assert c.call(1, "getFileInfo", path("/")).call_id == 1

    def test_call_before_the_context(self, connect):
        c = connect(context=False)
        c.send(1, "getFileInfo", path("/"))
        assert c.receive().status == FATAL
        assert c.closed()


class TestRefusals:
    def test_unknown_method(self, connect):
        c = connect()
        answer = c.call(1, "noSuchMethod")
        assert (answer.status, answer.kind) == (ERROR, "org.apache.hadoop.ipc.RpcNoSuchMethodException")
        assert c.call(2, "getFileInfo", path("/")).status == SUCCESS

    def test_unknown_protocol(self, connect):
        c = connect()
        answer = c.call(1, "getFileInfo", path("/"), protocol="org.example.Nothing")
        assert (answer.status, answer.kind) == (ERROR, "org.apache.hadoop.ipc.RpcNoSuchProtocolException")

    def test_garbage_in_a_request(self, connect):
        c = connect()
        c.send(1, "getFileInfo", b"\xff\xff\xff")
        answer = c.receive()
        assert answer.status in (ERROR, FATAL)

    def test_other_kind_of_rpc(self, connect):
        c = connect()
        c.send(1, "getFileInfo", path("/"), kind=1)
        assert c.receive().status == FATAL
        assert c.closed()

    def test_old_version_of_rpc(self, store):
        with socket.create_connection(address(store.fs), 5) as s:
            s.settimeout(5)
            s.sendall(b"hrpc\x0a\x00\x00")
            answer = s.recv(4096)
            assert b"VersionMismatch" in answer

    def test_relative_paths_and_dots(self, connect):
        c = connect()
        assert c.call(1, "getFileInfo", path("relative")).status == ERROR
        for i, bad in enumerate(("relative", "/a/../b", "/a/./b", "/a//b:c/..", "")):
            assert c.call(i + 2, "mkdirs", mkdirs(bad)).status == ERROR, bad


class TestNegotiation:
    def test_sasl_on_a_simple_store(self, connect):
        """Readers of open files start with NEGOTIATE even here: SUCCESS means that SIMPLE will do; so may an offer."""
        c = connect(auth=0xDF, context=False)
        c.frame(delimited(c.header(-33, client_id=b"")), delimited(message((2, 1))))
        answer = c.receive()
        assert answer.call_id == (-33) & 0xFFFFFFFF
        said = fields(answer.body)
        if said[2] == [0]:
            assert 3 not in said  # a token in it makes some clients panic
        else:
            assert b"SIMPLE" in b"".join(said[4])
            c.frame(
                delimited(c.header(-33, client_id=b"")),
                delimited(message((2, 2), (4, message((1, "SIMPLE"), (2, ""))))),
            )
        c.context(SUPERUSER)
        assert c.call(1, "getFileInfo", path("/")).status == SUCCESS


class TestRetries:
    """A client that lost an answer sends the same call again, by its client id and call id: the same answer, done
    once."""

    def test_delete(self, connect, root, home):
        root.mkdirs(f"{home}/d")
        first = connect()
        assert fields(first.call(5, "delete", delete(f"{home}/d")).body)[1] == [1]
        again = connect(client_id=first.client_id)
        assert fields(again.call(5, "delete", delete(f"{home}/d"), retry=1).body)[1] == [1]
        # another call is another deletion: nothing there
        assert fields(again.call(6, "delete", delete(f"{home}/d")).body)[1] == [0]

    def test_rename(self, connect, root, home):
        root.mkdirs(f"{home}/d")
        body = message((1, f"{home}/d"), (2, f"{home}/e"), (3, 0))
        first = connect()
        assert first.call(5, "rename2", body).status == SUCCESS
        again = connect(client_id=first.client_id)
        assert again.call(5, "rename2", body, retry=1).status == SUCCESS
        assert again.call(6, "rename2", body).status == ERROR

    def test_create(self, connect, root, home):
        body = message((1, f"{home}/f"), (2, message((1, 0o644))), (3, "holder"), (4, 1), (5, 1), (6, 3), (7, 1 << 20))
        first = connect()
        made = first.call(5, "create", body)
        again = connect(client_id=first.client_id).call(5, "create", body, retry=1)
        assert made.status == again.status == SUCCESS
        assert fields(made.body)[1] == fields(again.body)[1]
        other = connect().call(5, "create", body.replace(b"holder", b"anothr"))
        assert (other.status, other.kind.rsplit(".")[-1]) == (ERROR, "AlreadyBeingCreatedException")

    def test_same_call_twice_at_the_same_time(self, connect, root, home):
        """Both copies are under way together: one is done, both get its answer."""
        for round in range(10):
            root.mkdirs(f"{home}/d{round}")
            one = connect()
            two = connect(client_id=one.client_id)
            for c in (one, two):
                c.send(5, "delete", delete(f"{home}/d{round}"))
            assert [fields(c.receive().body)[1] for c in (one, two)] == [[1], [1]]


@pytest.mark.levada
def test_retries_survive_a_restart(up):
    store = up()
    with Connection(address(store.fs), SUPERUSER) as c:
        client_id = c.client_id
        c.call(1, "mkdirs", mkdirs("/d"))
        assert fields(c.call(2, "delete", delete("/d")).body)[1] == [1]
    store.kill()
    store.start()
    with Connection(address(store.fs), SUPERUSER, client_id=client_id) as c:
        assert fields(c.call(2, "delete", delete("/d"), retry=1).body)[1] == [1]


def test_a_call_is_answered_promptly(connect):
    """No Nagle, no waiting for more: of hundreds of calls one after the other most take no time, whatever else the
    machine does now and then."""
    c = connect()
    took = []
    for i in range(300):
        begun = time.monotonic()
        c.call(i, "getFileInfo", path("/"))
        took.append(time.monotonic() - begun)
    assert sorted(took)[len(took) // 2] < 0.01
