"""What a cluster decides stands in one room, `solana/protocol.py`, and in no other code or page.

Each kind of constant is a function that finds it in a line of text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.repository import DOCS, ROOT

ROOM = ROOT / "framework/solward/solana/protocol.py"
PRODUCT = ("framework", "server", "plugins")

# Lamports a byte, by SIMD-0437; the least is any other number as well.
_STEPS = (6_960, 6_333, 5_080, 2_575, 1_322, 696)
_SIZES = range(256)
_RENTS = {(128 + size) * step for step in _STEPS for size in _SIZES} | set(_STEPS[:-1])
_NUMBER = re.compile(r"(?<![\w.#])(\d[\d_,]*)(?:\.(\d+))?(?![\w%])")
_IN_WORDS = re.compile(
    r"[\d.]+ SOL (?:of|for) rent|\brent (?:is|of|for|takes)\b[^.|;:]{0,30}? [\d.]+ SOL", re.I
)


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


KINDS: dict[str, Callable[[str], Iterator[str]]] = {"rent": rent}


def files() -> Iterator[Path]:
    """The product's code, and every page that is written by hand."""
    for folder in PRODUCT:
        yield from (ROOT / folder).rglob("*.py")
    yield from DOCS.glob("*.md")
    yield ROOT / "README.md"


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_cluster_decides_stands_in_one_room(kind: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {said}"
        for path in files()
        if path != ROOM
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for said in KINDS[kind](line)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "RENT_PER_BYTE = 6_960",
        "RENT_EXEMPT = 890_880",
        "0.00203928 SOL for the account",
        "takes 1,488,440 lamports",
        "It costs about 0.0055 SOL of rent.",
        "5080 lamports a byte",
        "rent is 0.002 SOL for each",
    ],
)
def test_a_rent_is_found_however_it_is_written(line: str) -> None:
    assert list(rent(line))
