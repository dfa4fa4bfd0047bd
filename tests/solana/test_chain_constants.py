"""What a cluster decides stands in one room, `solana/protocol.py`, and in no other code or page.

Each kind of constant is a function that finds it in a line of text. The words of finality stand in
`vault/ledger/protocol.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.repository import DOCS, ROOT

ROOM = ROOT / "framework/solward/solana/protocol.py"
FOLDERS = ("framework", "server", "plugins", "plugin_template", "examples")

# Lamports a byte, by SIMD-0437; the least is any other number as well.
_STEPS = (6_960, 6_333, 5_080, 2_575, 1_322, 696)
_SIZES = range(256)
_RENTS = {(128 + size) * step for step in _STEPS for size in _SIZES} | set(_STEPS[:-1])
_NUMBER = re.compile(r"(?<![\w.#])(\d[\d_,]*)(?:\.(\d+))?(?![\w%])")
_IN_WORDS = re.compile(
    r"[\d.]+ SOL (?:of|for) rent|\brent (?:is|of|for|takes)\b[^.|;:]{0,30}? [\d.]+ SOL", re.I
)

# A constant of it; a number of milliseconds or seconds beside the word; a minute of a blockhash.
_SLOT_CONSTANT = re.compile(r"^[A-Z_]*SLOT_(?:S|MS|SECONDS|TIME[A-Z_]*)\b[^=\n]*=\s*[\d(]")
_LIFETIME = re.compile(
    r"""(?:slots?|blockhash|blockhashes|150\ blocks)\b[^.;\n]{0,40}?
        (?:\b\d+(?:\.\d+)?\ ?(?:ms|s|seconds|minutes?)\b|\babout\ a\ minute|\bhalf\ a\ minute)
     |  \b\d+(?:\.\d+)?\ ?(?:ms|s|seconds)\b[^.;\n]{0,12}?\bslots?\b
     |  \(about\ a\ minute\)""",
    re.VERBOSE | re.IGNORECASE,
)
_SLOT_BOUNDS = "A slot counts as 100 ms to 1 s"


def rent(line: str) -> Iterator[str]:
    """Rents in lamports or SOL, of a byte or an account. The setting's own default is none."""
    if "LOCALNET_RENT_PER_BYTE" in line:
        return
    for found in _NUMBER.finditer(line):
        whole, part = int(re.sub("[_,]", "", found[1])), found[2] or ""
        lamports = whole * 10**9 + int(part.ljust(9, "0")) if 5 < len(part) <= 9 else whole
        if lamports in _RENTS and (part or len(found[1]) > 3):
            yield found[0]
    yield from _IN_WORDS.findall(line)


def slot_time(line: str) -> Iterator[str]:
    """How long a slot, or a blockhash, takes; the bounds that it is counted by are none."""
    for pattern in (_SLOT_CONSTANT, _LIFETIME):
        for found in pattern.finditer(line.replace(_SLOT_BOUNDS, "")):
            yield found[0]


KINDS: dict[Callable[[str], Iterator[str]], frozenset[str]] = {
    rent: frozenset(),
    # The localnet's setting, with its default, and what was measured.
    slot_time: frozenset({"settings.md", "localnet.md", "promises.md", "benchmarks.md"}),
}
"""With the pages that may say it."""


def code(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def found_in(files: Iterator[Path], find: Callable[[str], Iterator[str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {said}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for said in find(line)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_cluster_decides_stands_in_one_room(kind: Callable[[str], Iterator[str]]) -> None:
    files = [*code(*FOLDERS), *DOCS.rglob("*.md"), ROOT / "README.md"]
    assert len(files) > 300
    others = (file for file in files if file != ROOM and file.name not in KINDS[kind])
    assert found_in(others, kind) == []


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (rent, "RENT_PER_BYTE = 6_960"),
        (rent, "RENT_EXEMPT = 890_880"),
        (rent, "0.00203928 SOL for the account"),
        (rent, "takes 1,488,440 lamports"),
        (rent, "It costs about 0.0055 SOL of rent."),
        (rent, "5080 lamports a byte"),
        (rent, "rent is 0.002 SOL for each"),
        (slot_time, "_SLOT_S = 0.4"),
        (slot_time, "_SLOT_MS: Final = 500"),
        (slot_time, "SLOT_TIME_S = 0.4"),
        (slot_time, "A blockhash lives 150 slots (about a minute); ten seconds leave most of it."),
        (slot_time, "Statuses at the pace of slots (0.4 s); the same bytes again"),
        (slot_time, "A slot takes 400 ms where none is skipped"),
        (slot_time, "at most 0.4 s, a slot"),
        (slot_time, "as long as its blockhash, 150 blocks, about a minute"),
        (slot_time, "a blockhash lives for 32 s"),
    ],
)
def test_it_is_found_however_it_is_written(kind: Callable[[str], Iterator[str]], line: str) -> None:
    assert list(kind(line))


# What a cluster calls its blocks; a record's own states are `TransactionStatus`.
_WORD = re.compile(r'"finalized"|confirmation(?:Status)?"?\]?\s*(?:==|!=|in|not in)\s')
# The localnet's setting has a value of that name.
_WORDS_ROOMS = frozenset(
    ROOT / "framework/solward" / each
    for each in ("vault/ledger/protocol.py", "settings/settings.py")
)


def test_no_other_module_compares_the_words_of_finality() -> None:
    product = code("framework/solward", "server", "plugins")
    others = (file for file in product if file not in _WORDS_ROOMS)
    assert found_in(others, lambda line: iter(_WORD.findall(line))) == []
    assert _WORD.search('status.confirmation in ("confirmed", "finalized")')
