"""Open files: hflush, hsync, append, seeking, leases and their recovery, told through the Java API."""

import base64

import pytest

import content
from java import JavaError
from paths import BLOCK
from store import eventually


class TestReading:
    def test_seek_and_pread(self, root, home):
        data = content.make(3 * BLOCK + 1000)
        root.write(f"{home}/f", data)
        reader = root.open(f"{home}/f")
        for offset in (0, 1, 511, 512, BLOCK - 5, BLOCK, 2 * BLOCK + 77_777, len(data) - 3):
            assert reader.pread(offset, 2000) == data[offset : offset + 2000]
            reader.seek(offset)
            assert reader.read(700) == data[offset : offset + 700]
        reader.seek(len(data))
        assert reader.read(10) == b""
        with pytest.raises(JavaError):
            reader.seek(len(data) + 1)
        reader.close()

    def test_many_readers_of_one_file(self, root, home):
        data = content.make(2 * BLOCK + 5)
        root.write(f"{home}/f", data)
        readers = [root.open(f"{home}/f") for _ in range(20)]
        pending = [r.fs.start("read", handle=r.handle, length=1 << 30) for r in readers]
        assert all(base64.b64decode(p.get()) == data for p in pending)
        for reader in readers:
            reader.close()

    def test_reader_of_a_deleted_file(self, root, home):
        """Blocks go some time after the name; a reader that has opened the file may finish or fail, not hang."""
        data = content.make(BLOCK)
        root.write(f"{home}/f", data)
        reader = root.open(f"{home}/f")
        assert reader.read(100) == data[:100]
        root.delete(f"{home}/f")
        try:
            assert data.startswith(data[:100] + reader.read(1000))
        except JavaError:
            pass
        reader.close()


class TestFlushing:
    def test_hflush_shows_the_bytes_to_others(self, root, users, home):
        data = content.make(3 * BLOCK)
        out = root.create(f"{home}/f")
        written = 0
        for length in (1, 511, 1, 700, 100_000, BLOCK, 3):
            out.write(data[written : written + length])
            written += length
            out.hflush()
            assert users("bob").read(f"{home}/f") == data[:written]
        out.close()
        assert root.read(f"{home}/f") == data[:written]
        assert root.checksum(f"{home}/f") == content.md5_of_md5_of_crc(data[:written])

    def test_hsync(self, root, users, home):
        out = root.create(f"{home}/f", sync_block=True)
        out.write(content.make(70_000))
        out.hsync()
        out.call("hsync-length")
        assert root.stat(f"{home}/f")["length"] == 70_000
        assert users("bob").read(f"{home}/f") == content.make(70_000)
        out.close()

    def test_many_small_hflushes(self, root, home):
        """A log: each line flushed; the partial chunk is sent again and again."""
        line = b"2026-01-01 a line of a log, no more than this\n"
        out = root.create(f"{home}/log")
        for _ in range(200):
            out.write(line)
            out.hflush()
        reader = root.open(f"{home}/log")
        assert reader.visible() == 200 * len(line)
        reader.close()
        out.close()
        assert root.read(f"{home}/log") == line * 200
        assert root.checksum(f"{home}/log") == content.md5_of_md5_of_crc(line * 200)

    def test_a_reader_opened_before_sees_no_more_than_then_but_a_new_one_does(self, root, home):
        out = root.create(f"{home}/f")
        out.write(b"one")
        out.hflush()
        reader = root.open(f"{home}/f")
        out.write(b"two")
        out.hflush()
        assert reader.read()[:3] == b"one"
        reader.close()
        assert root.read(f"{home}/f") == b"onetwo"
        out.close()

    def test_created_but_nothing_flushed(self, root, home):
        out = root.create(f"{home}/f")
        assert root.read(f"{home}/f") == b""
        assert root.stat(f"{home}/f")["length"] == 0
        out.write(b"one")
        out.close()
        assert root.read(f"{home}/f") == b"one"

    def test_hsync_of_hdfs_native(self, native, root, home, tmp_path):
        """Its next packet begins in mid-chunk, unlike Java's."""
        part = tmp_path / "part"
        part.write_bytes(content.make(777))
        native.call("create", path=f"{home}/f", handle="h", block=BLOCK)
        for round in range(1, 6):
            native.call("write", handle="h", local=str(part))
            native.call("hsync", handle="h")
            assert root.read(f"{home}/f") == content.make(777) * round
        native.call("close", handle="h")
        assert root.read(f"{home}/f") == content.make(777) * 5
        assert root.checksum(f"{home}/f") == content.md5_of_md5_of_crc(content.make(777) * 5)


class TestAppending:
    @pytest.mark.parametrize("before", [0, 1, 511, 512, 513, 100_000, BLOCK - 1, BLOCK, BLOCK + 1])
    def test_append(self, root, home, before):
        first, second = content.make(before, 1), content.make(BLOCK + 700, 2)
        root.write(f"{home}/f", first)
        out = root.append(f"{home}/f")
        out.write(second)
        out.close()
        assert root.stat(f"{home}/f")["length"] == before + len(second)
        assert root.read(f"{home}/f") == first + second
        assert root.checksum(f"{home}/f") == content.md5_of_md5_of_crc(first + second)

    def test_append_nothing(self, root, home):
        root.write(f"{home}/f", b"one")
        root.append(f"{home}/f").close()
        assert root.read(f"{home}/f") == b"one"

    def test_append_many_times(self, root, home):
        root.write(f"{home}/f", b"")
        for i in range(30):
            out = root.append(f"{home}/f")
            out.write(content.make(100, i))
            out.close()
        assert root.read(f"{home}/f") == b"".join(content.make(100, i) for i in range(30))

    def test_append_as_a_new_block(self, root, home):
        root.write(f"{home}/f", content.make(1000))
        out = root.append(f"{home}/f", new_block=True)
        out.write(content.make(500))
        out.close()
        assert root.read(f"{home}/f") == content.make(1000) + content.make(500)
        assert [b["length"] for b in root.call("blocks", path=f"{home}/f")] == [1000, 500]

    def test_append_keeps_the_files_own_checksum(self, root, home):
        """A CRC32 file appended to by a client whose own checksum is CRC32C."""
        root.write(f"{home}/f", content.make(5000), checksum="CRC32", chunk=512)
        out = root.append(f"{home}/f")
        out.write(content.make(5000, 1))
        out.close()
        whole = content.make(5000) + content.make(5000, 1)
        assert root.read(f"{home}/f") == whole
        assert root.checksum(f"{home}/f") == content.md5_of_md5_of_crc(whole, "CRC32")

    @pytest.mark.parametrize("client", ["native", "go"])
    def test_append_by_others(self, request, root, home, tmp_path, client):
        child = request.getfixturevalue(client)
        part = tmp_path / "part"
        part.write_bytes(content.make(3000, 1))
        root.write(f"{home}/f", content.make(777))
        child.call("append", path=f"{home}/f", local=str(part))
        child.call("append", path=f"{home}/f", local=str(part))
        assert root.read(f"{home}/f") == content.make(777) + content.make(3000, 1) * 2

    def test_flush_while_appending(self, root, users, home):
        root.write(f"{home}/f", content.make(700))
        out = root.append(f"{home}/f")
        out.write(content.make(700, 1))
        out.hflush()
        assert users("bob").read(f"{home}/f") == content.make(700) + content.make(700, 1)
        out.close()


class TestLeases:
    def test_recovery_takes_the_file_from_its_writer(self, users, home):
        """What was flushed is in the file; the old writer is fenced."""
        alice, other = users("alice"), users("alice")
        out = alice.create(f"{home}/f")
        out.write(content.make(BLOCK + 1000))
        out.hflush()
        assert other.call("is-closed", path=f"{home}/f") is False
        other.call("recover-lease", path=f"{home}/f")
        eventually(lambda: other.call("recover-lease", path=f"{home}/f"), 30, "the lease is recovered", every=0.5)
        assert other.call("is-closed", path=f"{home}/f") is True
        assert other.read(f"{home}/f") == content.make(BLOCK + 1000)
        with pytest.raises(JavaError):
            out.write(content.make(1000))
            out.hflush()
            out.close()
        assert other.read(f"{home}/f") == content.make(BLOCK + 1000)
        assert other.checksum(f"{home}/f") == content.md5_of_md5_of_crc(content.make(BLOCK + 1000))

    def test_recovery_of_a_writer_that_went_away(self, java, store, users, home):
        """Then the file can be appended to."""
        alice = users("alice")
        out = alice.create(f"{home}/f")
        out.write(content.make(1000))
        out.hflush()
        out.abandon()
        other = users("alice")
        eventually(lambda: other.call("recover-lease", path=f"{home}/f"), 30, "the lease is recovered", every=0.5)
        more = other.append(f"{home}/f")
        more.write(b"more")
        more.close()
        assert other.read(f"{home}/f") == content.make(1000) + b"more"

    def test_recovery_of_an_empty_open_file(self, users, home):
        alice, other = users("alice"), users("alice")
        alice.create(f"{home}/f").abandon()
        eventually(lambda: other.call("recover-lease", path=f"{home}/f"), 30, "the lease is recovered", every=0.5)
        assert other.call("is-closed", path=f"{home}/f") is True
        assert other.read(f"{home}/f") == b""

    def test_recovery_of_a_closed_file(self, root, home):
        root.write(f"{home}/f", b"one")
        assert root.call("recover-lease", path=f"{home}/f") is True
        assert root.call("is-closed", path=f"{home}/f") is True

    def test_append_while_open_elsewhere(self, users, home):
        alice, other = users("alice"), users("alice")
        out = alice.create(f"{home}/f")
        out.write(b"one")
        out.hflush()
        with pytest.raises(JavaError) as caught:
            other.append(f"{home}/f")
        assert caught.value.kind == "AlreadyBeingCreatedException"
        out.close()

    def test_deleted_under_the_writer(self, users, home):
        alice, other = users("alice"), users("alice")
        out = alice.create(f"{home}/f")
        out.write(content.make(1000))
        out.hflush()
        assert other.delete(f"{home}/f") is True
        with pytest.raises(JavaError) as caught:
            out.close()
        assert "does not exist" in str(caught.value)

    def test_renamed_under_the_writer(self, users, home):
        alice, other = users("alice"), users("alice")
        out = alice.create(f"{home}/f")
        out.write(content.make(1000))
        out.hflush()
        assert other.rename(f"{home}/f", f"{home}/g") is True
        out.write(content.make(1000, 1))
        out.close()
        assert other.read(f"{home}/g") == content.make(1000) + content.make(1000, 1)
