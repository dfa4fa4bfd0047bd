"""A sealed stream gives back what was written, or nothing that was not."""

from __future__ import annotations

import io

import pytest

from solward.backup.archive import CHUNK, MAGIC, SealedReader, SealedWriter
from solward.types.errors import BackupError

SEALED = CHUNK + 16


def seal(plain: bytes, piece: int = 300_000) -> bytes:
    sink = io.BytesIO()
    writer = SealedWriter(sink, "a passphrase")
    for start in range(0, len(plain), piece):
        writer.write(plain[start : start + piece])
    writer.finish()
    return sink.getvalue()


def read(sealed: bytes, passphrase: str = "a passphrase") -> bytes:
    reader, parts = SealedReader(io.BytesIO(sealed), passphrase), []
    while part := reader.read(70_000):
        parts.append(part)
    return b"".join(parts)


def pattern(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


def beginning(sealed: bytes) -> int:
    """Where the chunks begin."""
    at = len(MAGIC)
    return at + 4 + int.from_bytes(sealed[at : at + 4], "big")


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 5])
def test_what_was_written_is_read_and_is_not_to_be_seen(size: int) -> None:
    plain = pattern(size)
    sealed = seal(plain)
    assert read(sealed) == plain
    assert b"0123456789abcdef" not in sealed
    chunks = max(1, -(-size // CHUNK))
    assert len(sealed) - beginning(sealed) == size + 16 * chunks


@pytest.mark.more
def test_two_seals_of_the_same_bytes_share_nothing() -> None:
    one, two = seal(pattern(1000)), seal(pattern(1000))
    assert one[beginning(one) :] != two[beginning(two) :]


@pytest.mark.more
def test_chunks_cannot_be_cut_off_moved_repeated_appended_or_changed() -> None:
    sealed = seal(pattern(2 * CHUNK + 5))
    at = beginning(sealed)
    head, first, second, last = (
        sealed[:at],
        sealed[at : at + SEALED],
        sealed[at + SEALED : at + 2 * SEALED],
        sealed[at + 2 * SEALED :],
    )
    assert read(head + first + second + last) == pattern(2 * CHUNK + 5)
    for parts in (
        (),
        (first,),
        (first, second),
        (second, first, last),
        (first, first, last),
        (first, last),
        (first, second, last, last),
        (first, second, last[:-1]),
        (first, second, last + b"\0"),
    ):
        with pytest.raises(BackupError, match="damaged or cut short"):
            read(head + b"".join(parts))
    for place in (at, at + SEALED + 9, len(sealed) - 1):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(BackupError, match="damaged or cut short"):
            read(bytes(changed))


def test_another_passphrase_opens_nothing() -> None:
    with pytest.raises(BackupError, match="The passphrase is not that of this backup"):
        read(seal(b"secret"), "another passphrase")


@pytest.mark.more
def test_no_byte_of_the_header_can_be_changed() -> None:
    sealed = seal(b"secret")
    # A few of each part; each wrong key takes a third of a second.
    for place in (0, len(MAGIC) + 3, *range(len(MAGIC) + 4, beginning(sealed), 47)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(BackupError):
            read(bytes(changed))


@pytest.mark.parametrize(
    ("was", "becomes", "text"),
    [
        (b'"format":1', b'"format":2', "newer version of Solward .format 2"),
        (b'"memory_kib":65536', b'"memory_kib":  512', "damaged"),
        (b'"memory_kib":65536', b'"memory_kib":99999999', "damaged"),
        (b'"time_cost":3', b'"time_cost":1', "damaged"),
        (b'"time_cost":3', b'"time_cost":99999', "damaged"),
        (b'"format":1', b'"format":true', "damaged"),
        (b'"kdf":{', b'"kdf":[{', "damaged"),
    ],
)
def test_a_header_that_asks_for_less_too_much_or_newer_is_refused(
    was: bytes, becomes: bytes, text: str
) -> None:
    sealed = seal(b"secret")
    header = sealed[len(MAGIC) + 4 : beginning(sealed)]
    assert was in header
    header = header.replace(was, becomes)
    forged = MAGIC + len(header).to_bytes(4, "big") + header + sealed[beginning(sealed) :]
    with pytest.raises(BackupError, match=text):
        read(forged)


@pytest.mark.parametrize("junk", [b"", b"SQLite format 3\0", MAGIC, MAGIC + b"\xff" * 60])
def test_what_is_no_backup_is_refused(junk: bytes) -> None:
    with pytest.raises(BackupError, match=r"not a backup|damaged"):
        read(junk)
