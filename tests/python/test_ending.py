"""How a program ends: with what Python says, whatever the client's threads do at that moment."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time

import pytest

import levada
from levada.testing import Store

PROGRAM = """
import asyncio, os, signal, sys, threading, time
import levada
# Who runs the tests may do so where Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
host, home = sys.argv[1:]
fs = levada.LevadaFileSystem(host)
"""


def start(store, home: str, program: str) -> subprocess.Popen:
    command = [sys.executable, "-X", "faulthandler", "-c", PROGRAM + program, f"{store.host}:{store.port}", home]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(program: subprocess.Popen) -> tuple[int, str]:
    _, said = program.communicate(timeout=60)
    return program.returncode, said


@pytest.fixture
def data(levada_fs, home) -> str:
    levada_fs.pipe_file(f"{home}/f", bytes(8 << 20))
    return f"{home}/f"


def test_after_a_query_of_duckdb(levada_store, levada_fs, home):
    pytest.importorskip("duckdb")
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    parquet.write_table(pyarrow.table({"a": range(100_000)}), f"{home}/t.parquet", filesystem=levada_fs)
    program = """
import duckdb
duckdb.register_filesystem(fs)
print(duckdb.sql(f"select sum(a) from read_parquet('levada://{home}/t.parquet')").fetchall())
"""
    for _ in range(20):
        assert ended(start(levada_store, home, program)) == (0, "")


def test_with_reads_in_flight(levada_store, home, data):
    """Several event loops, so that somebody wants the GIL at any moment, and Python takes its time to end."""
    program = """
ballast = [[] for _ in range(1_000_000)]

async def read():
    fs = levada.LevadaFileSystem(host, asynchronous=True, skip_instance_cache=True)
    while True:
        await asyncio.gather(*(fs._cat_file(f"{home}/f", n, n + 100) for n in range(20)), fs._info(home))

for _ in range(4):
    threading.Thread(target=asyncio.run, args=(read(),), daemon=True).start()
time.sleep(0.2 + int.from_bytes(os.urandom(1), "big") / 2000)
"""
    for _ in range(10):
        assert ended(start(levada_store, home, program)) == (0, "")


def test_with_a_thread_that_waits(levada_store, home, data):
    """It never stops, so it is not waited for."""
    program = """
levada.ending.WAIT_S_MAX = 0.1

def read():
    while True:
        fs.client.open(f"{home}/f").wait().read_at(0, 1 << 20).wait()

threading.Thread(target=read, daemon=True).start()
time.sleep(0.1)
"""
    for _ in range(5):
        assert ended(start(levada_store, home, program)) == (0, "")


def test_with_a_thread_of_cpp_that_reads(levada_fs, home):
    """Its read is answered while Python would take its time to end; it wants the GIL then, below frames of C++."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    program = """
import subprocess
import pyarrow.parquet

class Stopping:
    "A file that stops the store in a read of a thread that is not Python's."

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, *length):
        if threading.current_thread().name.startswith("Dummy") and not reading.is_set():
            for pid in PIDS:
                os.kill(pid, signal.SIGSTOP)
            words = ["sh", "-c", f"sleep 0.1; kill -CONT {' '.join(map(str, PIDS))}"]
            subprocess.Popen(words, start_new_session=True)
            reading.set()
        return self.file.read(*length)

reading = threading.Event()
ballast = [[] for _ in range(1_000_000)]
file = levada.LevadaFileSystem(host, local_reads=False).open(f"{home}/t.parquet")
table = pyarrow.parquet.ParquetFile(pyarrow.PythonFile(Stopping(file), mode="r"), pre_buffer=True)
threading.Thread(target=table.read, daemon=True).start()
assert reading.wait(30)
"""
    with Store() as store:
        fs = levada.LevadaFileSystem(store.host, store.port, skip_instance_cache=True)
        fs.makedirs(home)
        table = pyarrow.table({"a": range(1_000_000)})
        parquet.write_table(table, f"{home}/t.parquet", filesystem=fs, row_group_size=50_000)
        pids = {pid for those in store.addresses["pids"].values() for pid in those}
        assert ended(start(store, home, program.replace("PIDS", repr(pids)))) == (0, "")


@pytest.mark.parametrize(
    "read",
    [
        "fs.open(f'{home}/f').readinto(bytearray(8 << 20))",
        "fs.cat_file(f'{home}/f')",
        "asyncio.run(reads())",
    ],
)
def test_by_ctrl_c_in_a_read(levada_store, home, data, read):
    program = f"""
async def reads():
    fs = levada.LevadaFileSystem(host, asynchronous=True)
    while True:
        await fs._cat_file(f"{{home}}/f")

print("begins", flush=True)
while True:
    {read}
"""
    process = start(levada_store, home, program)
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    status, said = ended(process)
    assert status == -signal.SIGINT and said.rstrip().endswith("KeyboardInterrupt"), said


def test_a_buffer_is_free_after_a_cancelled_read(levada_store, home, data):
    """Whoever gives a read up has the memory back, by the next call at the latest."""
    async def work():
        fs = levada.LevadaFileSystem(levada_store.host, levada_store.port, asynchronous=True, skip_instance_cache=True)
        reader = await fs.client.open(data)
        buffer = bytearray(8 << 20)

        async def read():
            await reader.readinto_at(0, buffer)

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            await fs.client.status(home)
            try:
                buffer.clear()
                return
            except BufferError:
                await asyncio.sleep(0.05)
        raise AssertionError("the buffer is still held")

    asyncio.run(work())


def test_an_event_loop_that_cannot_watch_says_so(levada_store, home):
    class Blind(asyncio.SelectorEventLoop):
        def add_reader(self, fd, callback, *args):
            raise NotImplementedError

    fs = levada.LevadaFileSystem(levada_store.host, levada_store.port, asynchronous=True, skip_instance_cache=True)
    loop = Blind()
    try:
        with pytest.raises(RuntimeError, match="Blind cannot watch a descriptor"):
            loop.run_until_complete(fs._info(home))
    finally:
        loop.close()


def test_a_loop_that_is_closed_leaves_nothing(levada_store, home, data):
    async def work():
        fs = levada.LevadaFileSystem(levada_store.host, levada_store.port, asynchronous=True, skip_instance_cache=True)
        asyncio.get_running_loop().create_task(fs._cat_file(data))
        await fs._info(home)

    def opened() -> int:
        gc.collect()
        return sum(link.startswith("anon_inode:[event") for link in map(descriptor, os.listdir("/proc/self/fd")))

    def descriptor(number: str) -> str:
        try:
            return os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            return ""

    asyncio.run(work())
    before = opened()
    for _ in range(20):
        asyncio.run(work())
    assert opened() <= before + 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_store_for_tests_does_not_outlive_who_started_it(number):
    """As at a limit of time: nobody calls `stop`, nor what Python calls at its end."""
    code = """
import os, signal, sys, time
from levada.testing import Store
store = Store()
print(store.addresses["pids"]["meta"][0], store.addresses["dir"], flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as program:
        pid, directory = program.stdout.readline().split()
        program.send_signal(number)
    end = time.monotonic() + 20
    while (os.path.exists(f"/proc/{pid}") or os.path.exists(directory)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}") and not os.path.exists(directory)
