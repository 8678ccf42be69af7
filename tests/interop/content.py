"""File contents and their checksums, computed here and not by any client."""

import hashlib
import random
import zlib

import crc32c as castagnoli

from paths import BLOCK

# What the issue asks: nothing, one byte, around a chunk, around a block, several blocks.
SIZES = [0, 1, 511, 512, 513, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + BLOCK // 2 + 77]


def make(length: int, seed: int = 0) -> bytes:
    return random.Random(f"{length} {seed}").randbytes(length)


def crc(kind: str, data: bytes) -> int:
    return {"CRC32C": castagnoli.crc32c, "CRC32": zlib.crc32}[kind](data)


def md5_of_md5_of_crc(data: bytes, kind: str = "CRC32C", chunk: int = 512, block: int = BLOCK) -> str:
    """HDFS's default file checksum as Java prints it: name, then bytesPerCRC, crcPerBlock and the MD5."""
    if not data:
        kind, chunk = "CRC32", 0
    sums = b""
    for start in range(0, len(data), block):
        part = data[start : start + block]
        chunks = (part[i : i + chunk] for i in range(0, len(part), chunk))
        sums += hashlib.md5(b"".join(crc(kind, c).to_bytes(4, "big") for c in chunks)).digest()
    # Java digests its whole buffer, which starts with 32 bytes and doubles.
    buffer = 32
    while buffer < len(sums):
        buffer *= 2
    digest = hashlib.md5(sums.ljust(buffer, b"\0")).hexdigest()
    per_block = block // chunk if len(data) > block else 0
    return f"MD5-of-{per_block}MD5-of-{chunk}{kind} {chunk:08x}{per_block:016x}{digest}"


def composite(data: bytes, kind: str = "CRC32C") -> str:
    return f"COMPOSITE-{kind} {crc(kind, data):08x}"
