"""A hostile writer who knows the protocol: packets that contradict themselves or each other, together in one segment
behind good ones, and operations that lie about what follows. The stream ends; nobody else notices, and what was
acknowledged is there."""

import socket
import struct
import threading

import pytest

import content
import crowd
from rawdata import BAD_CHECKSUM, CREATE, OK, WRITE, Names, Transfer
from rawrpc import Connection, delimited, message, varint
from store import SUPERUSER, Store, eventually
from stranger import left_no_mark

pytestmark = pytest.mark.levada

MEMORY = 256 << 20
PROGRAM = 64 << 20  # idle it has 30 MB; stacks and heaps of threads that were busy stay for a while
CHUNK = 512
FIRST = content.make(CHUNK * 4)


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("streams") / "levada", "--memory", str(MEMORY))
    yield store
    store.stop()


@pytest.fixture(autouse=True)
def still_works(victim, java):
    yield
    left_no_mark(victim, java, MEMORY + PROGRAM)


@pytest.fixture
def names(victim):
    made = Names(victim.fs, SUPERUSER, holder="hostile")
    yield made
    made.rpc.socket.close()


@pytest.fixture
def chain(victim, names, request):
    """A block of a new file on all three datanodes, its chain set up."""
    path = f"/hostile/{abs(hash(request.node.name))}"
    names.create(path)
    located = names.add_block(path)
    stream = Transfer(located.addresses()[0])
    assert stream.write(located, targets=located.infos[1:], stage=CREATE)[1] == [OK]
    stream.path, stream.located = path, located
    yield stream
    stream.close()
    names.call("delete", (1, path), (2, 1))


def sums_of(data: bytes) -> bytes:
    return b"".join(
        content.crc("CRC32C", data[at : at + CHUNK]).to_bytes(4, "big") for at in range(0, len(data), CHUNK)
    )


def packet(offset, seqno, data=b"", last=0, sums=None, data_len=None, payload=None, header_len=None) -> bytes:
    """What a packet says of itself can be told apart from what it has."""
    sums = sums_of(data) if sums is None else sums
    header = b"\x09" + struct.pack("<q", offset) + b"\x11" + struct.pack("<q", seqno) + b"\x18" + bytes([last])
    header += b"\x25" + struct.pack("<i", len(data) if data_len is None else data_len)
    counted = 4 + len(sums) + len(data) if payload is None else payload
    return (
        struct.pack(">IH", counted & 0xFFFFFFFF, len(header) if header_len is None else header_len)
        + header
        + sums
        + data
    )


GOOD = packet(0, 0, FIRST)
AT = len(FIRST)
BAD = {
    "checksum": packet(AT, 1, FIRST, sums=b"\0" * 16),
    "more data than payload": packet(AT, 1, FIRST, data_len=AT + 17),
    "much more data than payload": packet(AT, 1, FIRST, data_len=2**31 - 1),
    "less than no data": packet(AT, 1, FIRST, data_len=-1),
    "one checksum too many": packet(AT, 1, FIRST, sums=sums_of(FIRST) + b"\0" * 4),
    "one checksum too few": packet(AT, 1, FIRST, sums=sums_of(FIRST)[4:]),
    "half a checksum": packet(AT, 1, FIRST, sums=sums_of(FIRST)[2:]),
    "checksums without data": packet(AT, 1, b"", sums=b"\0" * 400),
    "data as checksums": packet(AT, 1, FIRST, data_len=1),
    "no payload at all": packet(AT, 1, b"", payload=0),
    "less than no payload": packet(AT, 1, b"", payload=-1),
    "a payload beyond all bounds": packet(AT, 1, FIRST, payload=2**31 - 1),
    "no header": packet(AT, 1, FIRST, header_len=0),
    "a header beyond all bounds": packet(AT, 1, FIRST, header_len=65535),
    "a header that swallows the data": packet(AT, 1, FIRST, header_len=1000, payload=5),
    "a gap": packet(AT + CHUNK, 1, FIRST),
    "a gap beyond all bounds": packet(2**63 - 1, 1, FIRST),
    "before the beginning": packet(-1, 1, FIRST),
    "across chunks from inside of one": packet(AT - 1, 1, FIRST),
    "the last one beyond the end": packet(AT + 1, 1, last=1),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_packet_behind_a_good_one(what, chain, names):
    """In one segment, with more good ones behind: the good one is stored and acknowledged by all or lost with the
    stream, never the bad one."""
    chain.socket.sendall(GOOD + BAD[what] + packet(AT, 2, FIRST) + packet(2 * AT, 3, last=1))
    acked = []
    try:
        while True:
            acked.append(chain.ack())
    except ConnectionError:
        pass
    good = [seqno for seqno, replies in acked if replies == [OK] * 3]
    assert good in ([], [0]), acked
    if what == "checksum":
        assert acked[-1] == (1, [BAD_CHECKSUM]) or acked[-1][1][0] == OK, acked
    # What is there is what was sent, and no more than was good.
    names.rpc.call(99, "recoverLease", message((1, chain.path), (2, "another")))
    eventually(lambda: names.call("isFileClosed", (1, chain.path))[1] == [1], 30, "the file is recovered")
    for located in names.blocks(chain.path):
        assert located.length in (0, AT)


def test_after_the_last_packet_nothing_counts(chain, names):
    """The end, a heartbeat, data, another end, nonsense, all together: the block is complete, as if they had come one
    by one."""
    chain.socket.sendall(
        GOOD + packet(AT, 1, last=1) + packet(0, -1) + packet(AT, 2, FIRST) + packet(2 * AT, 3, last=1) + b"\xff" * 100
    )
    assert [chain.ack() for _ in range(2)] == [(0, [OK] * 3), (1, [OK] * 3)]
    assert chain.closed()
    assert names.complete(chain.path, chain.located.extended(length=AT))
    assert names.blocks(chain.path)[0].length == AT


def test_numbers_that_jump(chain, names):
    """HDFS takes whatever numbers a writer gives its packets; each is acknowledged under its own."""
    numbers = [0, 7, 7, 3, 2**62, -2]
    chain.socket.sendall(b"".join(packet(place * AT, number, FIRST) for place, number in enumerate(numbers)))
    assert [chain.ack() for _ in numbers] == [(number, [OK] * 3) for number in numbers]
    chain.send(len(numbers) * AT, 8, last=True)
    assert chain.ack() == (8, [OK] * 3)
    assert names.complete(chain.path, chain.located.extended(length=len(numbers) * AT))


def test_data_in_the_last_packet(chain, names):
    chain.socket.sendall(GOOD + packet(AT, 1, FIRST, last=1))
    assert [chain.ack() for _ in range(2)] == [(0, [OK] * 3), (1, [OK] * 3)]
    assert names.complete(chain.path, chain.located.extended(length=2 * AT))
    assert names.blocks(chain.path)[0].length == 2 * AT


def test_thousands_of_tiny_packets_at_once(chain, names):
    """A writer that takes no ack before it has sent all: it is not read further than it is acknowledged, and all of it
    arrives."""
    count = 5000
    stream = b"".join(packet(number, number, b"x") for number in range(count))
    sending = threading.Thread(target=chain.socket.sendall, args=(stream,))
    sending.start()
    for number in range(count):
        assert chain.ack() == (number, [OK] * 3)
    sending.join()
    chain.send(count, count, last=True)
    assert chain.ack() == (count, [OK] * 3)
    assert names.complete(chain.path, chain.located.extended(length=count))


def test_claims_of_long_packets_take_no_memory(victim, names):
    """Forty streams whose packets are to have 16 MB each, of which six bytes come: other writers have room (the fixture
    writes)."""
    path = "/hostile/claims"
    streams = []
    for number in range(40):
        names.create(f"{path}/{number}", replication=1)
        located = names.add_block(f"{path}/{number}")
        streams.append(Transfer(located.addresses()[0]))
        assert streams[-1].write(located)[1] == [OK]
        streams[-1].socket.sendall(struct.pack(">IH", 16 << 20, 25))
    data = content.make(1 << 20)
    for node in range(3):
        crowd.write(victim, f"{path}/beside{node}", len(data))
    for stream in streams:
        stream.close()
    names.call("delete", (1, path), (2, 1))


class TestOperations:
    def test_long_lists(self, victim, names):
        """Half a million empty descriptions of targets, in a message of a megabyte, on each of thirty connections:
        decoded they took 4 GB."""
        names.create("/hostile/lists", replication=1)
        located = names.add_block("/hostile/lists")
        header = message((1, message((1, located.block), (2, located.token))), (2, "raw"))
        body = message((1, header), (4, CREATE), (5, 1), (6, 0), (7, 0), (8, 0), (9, message((1, 2), (2, CHUNK))))
        body += b"\x12\x00" * ((1 << 19) - 200)
        streams = [Transfer(located.addresses()[0]) for _ in range(30)]
        threads = [
            threading.Thread(target=sends, args=(stream, b"\x00\x1c\x50" + delimited(body))) for stream in streams
        ]
        highest = watched(victim, threads)
        assert highest < MEMORY + PROGRAM, highest
        for stream in streams:
            stream.close()
        names.call("delete", (1, "/hostile/lists"), (2, 1))

    def test_places_are_not_taken_by_those_who_only_say_that_they_will_ask(self, victim, java):
        """As many connections as there are places for operations, each with the first three bytes of one."""
        crowd.allow(6000)
        streams = []
        for _ in range(4200):
            streams.append(socket.create_connection(victim.transfer[0], 30))
            streams[-1].sendall(b"\x00\x1c\x50")
        crowd.write(victim, "/hostile/beside", 1 << 20)
        fs = java.mount(victim.fs, SUPERUSER)
        for number in range(10):
            fs.write(f"/hostile/f{number}", FIRST)
            assert fs.read(f"/hostile/f{number}") == FIRST
        fs.unmount()
        for stream in streams:
            stream.close()

    def test_more_targets_than_there_may_be(self, victim, names):
        names.create("/hostile/targets", replication=1)
        located = names.add_block("/hostile/targets")
        for count in (513, 3000):
            stream = Transfer(located.addresses()[0])
            answer = stream.write(located, targets=located.infos * count)
            assert answer[1] != [OK] and answer[5][0]
            stream.close()
        names.call("delete", (1, "/hostile/targets"), (2, 1))

    def test_a_chain_that_leads_back(self, victim, names):
        """The first node is its own target, ten times: one of them is refused, and nothing stays."""
        names.create("/hostile/circle", replication=1)
        located = names.add_block("/hostile/circle")
        stream = Transfer(located.addresses()[0])
        assert stream.write(located, targets=located.infos * 10)[1] != [OK]
        stream.close()
        names.call("delete", (1, "/hostile/circle"), (2, 1))


class TestSmallWrites:
    """Operation 200, ours: a whole block in one request."""

    def header(self, located, number=1, data=FIRST, kind=2, chunk=CHUNK, targets=(), **changes):
        pick = lambda name, value: changes.get(name, value)
        return message(
            (1, number),
            (2, pick("block", located.block_id)),
            (3, located.generation),
            (4, pick("data_len", len(data))),
            (5, kind),
            (6, chunk),
            (7, pick("pool", "")),
            (8, pick("token", b"")),
            *((9, target) for target in targets),
        )

    def test_lengths_that_contradict(self, victim, names):
        names.create("/hostile/small", replication=1)
        located = names.add_block("/hostile/small")
        where = located.addresses()[0]
        whole = sums_of(FIRST) + FIRST
        own = f"{where[0]}:{where[1]}"
        cases = [
            self.header(located, data_len=len(FIRST) - 1),
            self.header(located, data_len=len(FIRST) + 1),
            self.header(located, data_len=0),
            self.header(located, data_len=2**32 - 1),
            self.header(located, data_len=(4 << 20) + 1),
            self.header(located, data_len=4 << 20, chunk=1),
            self.header(located, chunk=0),
            self.header(located, chunk=2**32 - 1),
            self.header(located, kind=99),
            self.header(located, kind=0),
            self.header(located, block=2**64 - 1),
            self.header(located, token=b"\xff" * 1000),
            self.header(located, pool="x" * 50_000),
            self.header(located, targets=[own] * 5),
            self.header(located, targets=["127.0.0.1:1"] * 511),
            self.header(located, targets=[""] * 30_000),
            self.header(located, targets=["x" * 60_000]),
            b"\xff" * 100,
            b"",
        ]
        for head in cases:
            for rest in (whole, whole[:100], whole * 3, b""):
                with socket.create_connection(where, 5) as s:
                    s.settimeout(0.3)
                    try:
                        s.sendall(b"\x00\x1c\xc8" + delimited(head) + rest)
                        while s.recv(65536):
                            pass
                    except (TimeoutError, ConnectionError):
                        pass
        names.call("delete", (1, "/hostile/small"), (2, 1))

    def test_many_that_never_end(self, victim, names):
        """Each says that four megabytes follow, with checksums of four times that: memory is counted before it
        comes."""
        names.create("/hostile/endless", replication=1)
        located = names.add_block("/hostile/endless")
        head = b"\x00\x1c\xc8" + delimited(self.header(located, data_len=4 << 20, chunk=1))
        streams = []
        for _ in range(100):
            streams.append(socket.create_connection(located.addresses()[0], 5))
            streams[-1].sendall(head)
        crowd.write(victim, "/hostile/beside", 1 << 20)
        for stream in streams:
            stream.close()
        names.call("delete", (1, "/hostile/endless"), (2, 1))


class TestNames:
    def test_values_beyond_their_bounds(self, victim):
        """Attributes, access lists and lists of nodes longer than HDFS takes: each is refused, soon, before it is
        decoded if it took too much."""
        entry = message((1, 0), (2, 0), (3, 7), (4, "bob"))
        with Connection(victim.rpc, SUPERUSER) as connection:
            connection.call(1, "mkdirs", message((1, "/hostile/named"), (2, message((1, 0o755))), (3, 1)))
            attribute = lambda name, value: message(
                (1, "/hostile/named"), (2, message((1, 0), (2, name), (3, value))), (3, 1)
            )
            calls = [
                ("setXAttr", attribute("a", b"x" * 3_000_000)),
                ("setXAttr", attribute("n" * 1_000_000, b"x")),
                ("setXAttr", attribute("", b"x")),
                ("setAcl", message((1, "/hostile/named"), *((2, entry) for _ in range(100_000)))),
                ("modifyAclEntries", message((1, "/hostile/named")) + (varint(2 << 3 | 2) + b"\0") * 500_000),
                ("mkdirs", message((1, "/" + "x" * 3_000_000), (2, message((1, 0o755))), (3, 1))),
                ("mkdirs", message((1, "/x" * 1_500_000), (2, message((1, 0o755))), (3, 1))),
                ("addBlock", message((1, "/hostile/none"), (2, "raw")) + b"\x22\x00" * 1_500_000),
                ("concat", message((1, "/hostile/none")) + b"\x12\x00" * 1_500_000),
            ]
            for method, body in calls:
                with Connection(victim.rpc, SUPERUSER) as another:
                    answer = another.call(2, method, body)
                    assert answer.status != 0 and answer.kind, (method, answer.kind)
            for number in range(40):
                answer = connection.call(100 + number, "setXAttr", attribute(f"a{number}", b"x" * 5000))
            assert answer.status == 1, "not more attributes than there may be"


def sends(stream: Transfer, data: bytes):
    try:
        stream.socket.sendall(data)
        stream.socket.recv(4096)
    except OSError:
        pass


def watched(store, threads) -> int:
    """The most memory that the store had while they ran."""
    highest = 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        highest = max(highest, store.resident())
    return highest
