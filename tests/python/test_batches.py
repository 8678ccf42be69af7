"""What is asked for together travels together: counted by the servers."""

import asyncio
import os
import re
import time
import urllib.request
from pathlib import Path

import pytest

import levada


class Requests:
    """What the servers of a store have been asked for since this was made."""

    def __init__(self, store):
        self._store = store
        # Servers make a page at most ten times a second; whoever asks sooner gets the last one.
        time.sleep(0.15)
        self._before = self._count()

    def _count(self) -> dict[str, int]:
        found = {"openings": 0, "reads": 0, "vectored": 0}
        names = [
            ("openings", r'levada_rpc_call_duration_seconds_count\{.*method="getBlockLocations".*\} (\d+)'),
            ("reads", r'levada_transfer_duration_seconds_count\{.*op="read".*\} (\d+)'),
            ("vectored", r'levada_transfer_duration_seconds_count\{.*op="read_ranges".*\} (\d+)'),
        ]
        for address in [self._store.addresses["http"], *self._store.addresses["data_http"]]:
            with urllib.request.urlopen(f"{address}/metrics") as page:
                text = page.read().decode()
            for name, pattern in names:
                found[name] += sum(int(count) for count in re.findall(pattern, text))
        return found

    def made(self) -> dict[str, int]:
        return {name: count - self._before[name] for name, count in self._count().items()}

    async def become(self, wanted: dict[str, int]) -> None:
        """A datanode counts an operation after its last byte."""
        for _ in range(100):
            if self.made() == wanted:
                return
            await asyncio.sleep(0.02)
        assert self.made() == wanted


DATA = bytes(range(256)) * 20_000


@pytest.fixture
def files(levada_fs, home) -> list[str]:
    """Each in one block of one datanode's."""
    paths = [f"{home}/f", f"{home}/g"]
    for path in paths:
        levada_fs.pipe_file(path, DATA)
    # What a client asks once for all its life has been asked.
    levada_fs.cat_ranges([paths[0]] * 2, [0, 5], [1, 6])
    return paths


@pytest.fixture
def in_loop(levada_store, files):
    """Runs a story in an event loop, with a file system that belongs to it."""

    def run(story):
        async def work():
            fs = levada.LevadaFileSystem(
                levada_store.host, levada_store.port, asynchronous=True, skip_instance_cache=True, local_reads=False
            )
            await fs._cat_ranges([files[0]] * 2, [0, 5], [1, 6])
            await story(fs, Requests(levada_store))

        asyncio.run(work())

    return run


def test_one_tick_is_one_request_a_file(in_loop, files):
    f, g = files

    async def story(fs, requests):
        starts = list(range(0, 3_000_000, 30_011))
        found = await asyncio.gather(
            *(fs._cat_file(f, start, start + 100) for start in starts),
            fs._cat_ranges([f, g, g], [-5, 7, 100_000], [None, 9, 100_003]),
            fs._cat_file(g, 1, 4),
        )
        assert found[:-2] == [DATA[start : start + 100] for start in starts]
        assert found[-2:] == [[DATA[-5:], DATA[7:9], DATA[100_000:100_003]], DATA[1:4]]
        await requests.become({"openings": 2, "reads": 0, "vectored": 2})

    in_loop(story)


def test_an_open_file_joins_its_reads(in_loop, files):
    async def story(fs, requests):
        async with await fs.open_async(files[0]) as file:
            found = await asyncio.gather(
                file.read_ranges([(0, 3), (len(DATA) - 2, 9)]), file.read_ranges([(70_000, 4)]), file.read(5)
            )
            assert found == [[DATA[:3], DATA[-2:]], [DATA[70_000:70_004]], DATA[:5]]
            buffer = bytearray(4)
            file.seek(9)
            assert await file.readinto(buffer) == 4 and buffer == DATA[9:13] and file.tell() == 13
        await requests.become({"openings": 1, "reads": 1, "vectored": 1})

    in_loop(story)


def test_a_stream_is_seen_when_it_is_whole(in_loop, files):
    async def story(fs, requests):
        async with await fs.open_async(files[0], "wb") as file:
            await file.write(b"new")
            assert await fs._cat_file(files[0], 0, 3) == DATA[:3]
        assert await fs._cat_file(files[0]) == b"new"
        with pytest.raises(KeyError):
            async with await fs.open_async(files[0], "wb") as file:
                await file.write(b"newer")
                raise KeyError
        assert await fs._cat_file(files[0]) == b"new"
        with pytest.raises(FileExistsError):
            await fs.open_async(files[0], "xb")

    in_loop(story)


def test_another_tick_sees_the_file_anew(in_loop, levada_fs, files):
    async def story(fs, requests):
        assert await fs._cat_file(files[0], 0, 3) == DATA[:3]
        await fs._pipe_file(files[0], b"new")
        assert await fs._cat_file(files[0]) == b"new"

    in_loop(story)


def test_each_gets_its_own_error(in_loop, files, home):
    async def story(fs, requests):
        found = await asyncio.gather(
            fs._cat_file(f"{home}/none", 0, 1),
            fs._cat_file(f"{home}/none", 1, 2),
            fs._cat_file(files[0], 0, 1),
            fs._cat_file(files[0], "x", 1),
            return_exceptions=True,
        )
        assert [type(one) for one in found] == [FileNotFoundError, FileNotFoundError, bytes, TypeError]
        assert found[0] is not found[1] and found[0].filename == f"{home}/none"

    in_loop(story)


def test_what_is_damaged_harms_who_asked_for_it(levada_store, levada_fs, home):
    """One block of two has no sound replica: the reads of the other one, which were asked with it, are answered."""
    path, data = f"{home}/f", os.urandom(2 << 20)
    fs = levada.LevadaFileSystem(levada_store.host, levada_store.port, block_size=1 << 20, skip_instance_cache=True)
    fs.pipe_file(path, data)
    mark, damaged = data[-100:], 0
    for directory in levada_store.addresses["data_dirs"]:
        for replica in Path(directory).rglob("*"):
            if replica.is_file() and (place := replica.read_bytes().find(mark)) >= 0:
                with open(replica, "r+b") as file:
                    file.seek(place)
                    file.write(bytes(100))
                damaged += 1
    assert damaged == 3

    async def read():
        fs = levada.LevadaFileSystem(levada_store.host, levada_store.port, asynchronous=True, skip_instance_cache=True)
        places = [(0, 10), (len(data) - 10, None), (1000, 1010)]
        return await asyncio.gather(*(fs._cat_file(path, *place) for place in places), return_exceptions=True)

    found = asyncio.run(read())
    assert found[0] == data[:10] and isinstance(found[1], OSError) and found[2] == data[1000:1010]


def test_who_gives_up_does_not_harm_the_others(in_loop, files):
    async def story(fs, requests):
        tasks = [asyncio.create_task(fs._cat_file(files[0], n * 1000, n * 1000 + 10)) for n in range(6)]
        await asyncio.sleep(0)
        # One before the request is made, one behind it.
        tasks[0].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[1].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in found[:2]] == [asyncio.CancelledError] * 2
        assert found[2:] == [DATA[n * 1000 : n * 1000 + 10] for n in range(2, 6)]
        # Nobody waits: nothing is read on.
        lost = [asyncio.create_task(fs._cat_file(files[0], n, n + 10)) for n in range(3)]
        await asyncio.sleep(0)
        for task in lost:
            task.cancel()
        await asyncio.gather(*lost, return_exceptions=True)
        assert await fs._cat_file(files[0], 0, 3) == DATA[:3]

    in_loop(story)


def test_what_an_open_file_knows_is_not_asked_again(levada_store, files):
    fs = levada.LevadaFileSystem(levada_store.host, levada_store.port, local_reads=False)
    requests = Requests(levada_store)
    with fs.open(files[0]) as file:
        assert file.details["type"] == "file" and file.info()["size"] == file.size == len(DATA)
        assert file.details["owner"] == fs.client.user
        buffers = [bytearray(3), bytearray(4)]
        file.readinto_ranges([(10, buffers[0]), (20_000, buffers[1])])
        assert buffers == [DATA[10:13], DATA[20_000:20_004]]
    asyncio.run(requests.become({"openings": 1, "reads": 0, "vectored": 1}))
