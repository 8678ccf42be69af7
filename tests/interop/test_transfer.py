"""HDFS data transfer to the letter: reads and writes of blocks by hand, also as HBase's own writer makes them."""

import hashlib

import pytest

import content
from rawdata import BAD_CHECKSUM, CREATE, FAILED, OK, Located, Names, Refused, Transfer
from rawrpc import fields, message
from store import SUPERUSER, eventually


@pytest.fixture
def names(store):
    made = Names(store.fs, SUPERUSER)
    yield made
    made.rpc.socket.close()


@pytest.fixture
def dial():
    made = []

    def to(where):
        made.append(Transfer(where))
        return made[-1]

    yield to
    for one in made:
        one.close()


class TestReading:
    DATA = content.make(300_000)

    @pytest.fixture
    def block(self, root, names, home) -> Located:
        root.write(f"{home}/f", self.DATA)
        return names.blocks(f"{home}/f")[0]

    def collect(self, transfer, answer, offset, length):
        """Checks every rule of packets on the way, and gives the bytes asked for."""
        assert answer[1] == [OK]
        info = fields(answer[4][0])
        start = info.get(2, [0])[0]
        assert start == offset // 512 * 512
        got, place, seqno = b"", start, 0
        while True:
            packet = transfer.packet()
            assert (packet.offset, packet.seqno, packet.header_length) == (place, seqno, 25)
            if packet.last:
                assert packet.data == packet.sums == b""
                break
            assert packet.data and start + len(got) < offset + length, "no data packet behind the end"
            sums = [packet.sums[i : i + 4] for i in range(0, len(packet.sums), 4)]
            chunks = [packet.data[i : i + 512] for i in range(0, len(packet.data), 512)]
            assert sums == [content.crc("CRC32C", chunk).to_bytes(4, "big") for chunk in chunks]
            got += packet.data
            place, seqno = place + len(packet.data), seqno + 1
        return got[offset - start : offset - start + length]

    def test_ranges_on_one_connection(self, block, dial):
        """Each read is acknowledged by the client's status, and the next goes over the same connection."""
        for where in block.addresses():
            transfer = dial(where)
            for offset, length in (
                (0, 300_000),
                (0, 1),
                (511, 2),
                (513, 100_000),
                (299_999, 1),
                (1000, 512),
                (65_536, 65_536),
                (0, 0),
            ):
                answer = transfer.read(block, offset, length)
                assert self.collect(transfer, answer, offset, length) == self.DATA[offset : offset + length]
                transfer.socket.sendall(b"\x02\x08\x06")  # ClientReadStatus CHECKSUM_OK

    def test_without_checksums(self, block, dial):
        transfer = dial(block.addresses()[0])
        answer = transfer.read(block, 700, 1000, checksums=False)
        info = fields(answer[4][0])
        assert fields(info[1][0])[1] == [0] and info[2] == [512]
        packet = transfer.packet()
        assert packet.sums == b"" and packet.data[188:1188] == self.DATA[700:1700]

    @pytest.mark.parametrize("what", ["offset", "length", "block", "generation"])
    def test_refusals(self, block, dial, what):
        transfer = dial(block.addresses()[0])
        if what == "offset":
            answer = transfer.read(block, 300_001, 1)
        elif what == "length":
            answer = transfer.read(block, 0, 300_001)
        elif what == "block":
            answer = transfer.read(block, block=4711)
        else:
            answer = transfer.read(block, generation=block.generation + 1)
        assert answer[1][0] != OK and answer[5][0], "a reason is given"

    def test_hanging_up_in_the_middle(self, block, dial, names, root, home):
        for _ in range(20):
            transfer = dial(block.addresses()[0])
            transfer.read(block)
            transfer.close()
        transfer = dial(block.addresses()[0])
        assert self.collect(transfer, transfer.read(block), 0, 300_000) == self.DATA

    def test_digest(self, block, dial):
        """Op 85 of a part of a block: whole chunks' stored sums and one of the trailing piece."""
        for length in (300_000, 512, 700, 0):
            transfer = dial(block.addresses()[0])
            body = message((1, message((1, block.extended(length=length)), (2, block.token))))
            transfer.operation(85, body)
            answer = fields(transfer.delimited()[3][0])
            chunks = [self.DATA[i : min(i + 512, length)] for i in range(0, length, 512)]
            sums = b"".join(content.crc("CRC32C", chunk).to_bytes(4, "big") for chunk in chunks)
            assert answer[3][0] == hashlib.md5(sums).digest(), length

    def test_operations_that_are_not_served(self, block, dial):
        """Short circuit is refused so that the client takes TCP."""
        transfer = dial(block.addresses()[0])
        header = message((1, block.block), (2, block.token))
        transfer.operation(87, message((1, header), (2, 1)))
        try:
            assert transfer.delimited()[1][0] != OK
        except ConnectionError:
            pass


class TestWriting:
    def begin(self, names, dial, path, node=0, **how):
        """A file with its first block, and a connection to one of the nodes that it is for."""
        names.create(path, **how)
        located = names.add_block(path)
        return located, dial(located.addresses()[node])

    def finish(self, names, path, located, length):
        eventually(lambda: names.complete(path, located.extended(length=length)), 20, "the file is complete", every=0.1)

    @pytest.mark.parametrize("step", [512, 5120, 64_512, 1_000_448, 4_194_304])
    def test_packets_of_any_size(self, names, dial, root, home, step):
        """Chains of three; HBase sends up to 12 MiB in one packet."""
        path, data = f"{home}/f", content.make(4_194_304 if step > 100_000 else 20 * step + 77)
        located, transfer = self.begin(names, dial, path, block=8 << 20)
        assert transfer.write(located, located.infos[1:])[1] == [OK]
        seqno = 0
        for offset in range(0, len(data), step):
            transfer.send(offset, seqno, data[offset : offset + step])
            seqno += 1
        transfer.send(len(data), seqno, last=True)
        assert [transfer.ack() for _ in range(seqno + 1)] == [(i, [OK] * 3) for i in range(seqno + 1)]
        self.finish(names, path, located, len(data))
        assert root.read(path) == data
        assert root.checksum(path) == content.md5_of_md5_of_crc(data, block=8 << 20)

    def fan_out(self, names, dial, path):
        """The one block of a file, as HBase's writer begins it: a chain of one to every node."""
        names.create(path, block=1 << 20)
        located = names.add_block(path)
        transfers = [dial(where) for where in located.addresses()]
        for transfer in transfers:
            assert transfer.write(located)[1] == [OK]
        return located, transfers

    def test_fan_out(self, names, dial, root, home):
        """HBase's writer: a chain of one to every node, packets to all, one block longer than the file's block size."""
        path, data = f"{home}/wal", content.make(1_600_000)
        located, transfers = self.fan_out(names, dial, path)
        for seqno, offset in enumerate(range(0, len(data), 400_384)):
            for transfer in transfers:
                transfer.send(offset, seqno, data[offset : offset + 400_384], sync=seqno % 2 == 0)
            assert [transfer.ack() for transfer in transfers] == [(seqno, [OK])] * 3
        for transfer in transfers:
            transfer.send(len(data), 99, last=True)
            assert transfer.ack() == (99, [OK])
        self.finish(names, path, located, len(data))
        assert root.read(path) == data

    def test_fan_out_that_dies(self, names, dial, root, home):
        """What HBase's writer had in a block beyond the file's block size is the file's, when another one closes it."""
        path, data = f"{home}/wal", content.make(1_600_000)
        _, transfers = self.fan_out(names, dial, path)
        for transfer in transfers:
            transfer.send(0, 0, data, sync=True)
            assert transfer.ack() == (0, [OK])
            transfer.close()
        recovered = lambda: names.call("recoverLease", (1, path), (2, "another"))[1] == [1]
        eventually(recovered, 30, "the file was recovered", every=0.1)
        assert root.read(path) == data

    def test_longer_than_what_nodes_have(self, names, dial, home):
        """Whoever says that a block is longer than the file's blocks needs a datanode that has so much."""
        path, data = f"{home}/f", content.make(1_600_000)
        located, transfer = self.begin(names, dial, path, block=1 << 20)
        assert transfer.write(located, located.infos[1:])[1] == [OK]
        transfer.send(0, 0, data)
        transfer.send(len(data), 1, last=True)
        assert [transfer.ack()[1] for _ in range(2)] == [[OK] * 3] * 2
        for wrong in (len(data) + 1, 1 << 62):
            with pytest.raises(Refused, match="no datanode has so much of it"):
                names.complete(path, located.extended(length=wrong))
        self.finish(names, path, located, len(data))

    def test_heartbeats_and_syncs(self, names, dial, root, home):
        path, data = f"{home}/f", content.make(1000)
        located, transfer = self.begin(names, dial, path)
        transfer.write(located, located.infos[1:])
        transfer.send(0, -1)
        assert transfer.ack()[0] == -1
        transfer.send(0, 0, data[:700])
        transfer.send(700, 1, sync=True)  # an hsync with nothing new
        transfer.send(0, -1)
        transfer.send(512, 2, data[512:])  # the partial chunk again, from its start
        transfer.send(1000, 3, last=True)
        assert [transfer.ack()[0] for _ in range(5)] == [0, 1, -1, 2, 3]
        self.finish(names, path, located, 1000)
        assert root.read(path) == data
        assert root.checksum(path) == content.md5_of_md5_of_crc(data)

    def test_wrong_checksum(self, names, dial, home):
        """The tail verifies; nothing wrong is kept, and the writer hears of it."""
        path = f"{home}/f"
        located, transfer = self.begin(names, dial, path, node=2)
        transfer.write(located)
        transfer.send(0, 0, content.make(512), sums=b"\1\2\3\4")
        try:
            assert transfer.ack()[1][-1] in (BAD_CHECKSUM, FAILED)
        except ConnectionError:
            pass
        assert transfer.closed()

    def test_gap(self, names, dial, home):
        path = f"{home}/f"
        located, transfer = self.begin(names, dial, path)
        transfer.write(located)
        transfer.send(5120, 0, content.make(512))
        try:
            assert transfer.ack()[1][-1] != OK
        except ConnectionError:
            pass

    def test_a_target_that_is_not_there(self, names, dial, home):
        """The set-up answer names the bad node by ip:port, as the client got it."""
        path = f"{home}/f"
        located, transfer = self.begin(names, dial, path)
        dead = message((1, message((1, "127.0.0.1"), (2, "localhost"), (3, "nobody"), (4, 1), (5, 1), (6, 1))))
        answer = transfer.write(located, [located.infos[1], dead])
        assert answer[1][0] != OK
        assert answer[2] == [b"127.0.0.1:1"]

    def test_the_same_block_twice(self, names, dial, home):
        """A second writer of a finalized replica is refused."""
        path = f"{home}/f"
        located, first = self.begin(names, dial, path)
        first.write(located)
        first.send(0, 0, content.make(100))
        first.send(100, 1, last=True)
        assert [first.ack()[1] for _ in range(2)] == [[OK], [OK]]
        second = dial(located.addresses()[0])
        try:
            assert second.write(located)[1][0] != OK
        except ConnectionError:
            pass

    @pytest.mark.parametrize("kind", [0, 1, 2])
    def test_kinds_of_checksums(self, names, dial, root, home, kind):
        name = {0: None, 1: "CRC32", 2: "CRC32C"}[kind]
        path, data = f"{home}/f", content.make(9000)
        located, transfer = self.begin(names, dial, path)
        transfer.write(located, located.infos[1:], stage=CREATE, kind=kind, chunk=2048)
        transfer.send(0, 0, data[:8192], kind=name, chunk=2048)
        transfer.send(8192, 1, data[8192:], kind=name, chunk=2048)
        transfer.send(9000, 2, last=True)
        assert [transfer.ack() for _ in range(3)] == [(i, [OK] * 3) for i in range(3)]
        self.finish(names, path, located, 9000)
        assert root.read(path) == data
        if name:
            assert root.checksum(path) == content.md5_of_md5_of_crc(data, name, 2048)
