"""How long a slot, or a blockhash, takes stands in one module: the cluster decides it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.repository import DOCS, ROOT

ROOM = ROOT / "framework/solward/solana/protocol.py"
# Its setting, with the default.
OF_THE_LOCALNET = frozenset({"configuration.md", "localnet.md"})

# A constant of it; a number of milliseconds or seconds beside the word; a minute of a blockhash.
CONSTANT = re.compile(r"^[A-Z_]*SLOT_(?:S|MS|SECONDS|TIME[A-Z_]*)\b[^=\n]*=\s*[\d(]", re.MULTILINE)
LIFETIME = re.compile(
    r"""(?:slots?|blockhash|blockhashes|150\ blocks)\b[^.;\n]{0,40}?
        (?:\b\d+(?:\.\d+)?\ ?(?:ms|s|seconds|minutes?)\b|\babout\ a\ minute|\bhalf\ a\ minute)
     |  \b\d+(?:\.\d+)?\ ?(?:ms|s|seconds)\b[^.;\n]{0,12}?\bslots?\b
     |  \(about\ a\ minute\)""",
    re.VERBOSE | re.IGNORECASE,
)
BOUNDS = "A slot counts as no shorter than 100 ms and no longer than 1 s"

SOURCES = [
    file
    for folder in ("framework", "server", "plugins", "plugin_template", "examples")
    for file in sorted((ROOT / folder).rglob("*.py"))
    if file != ROOM
]
PAGES = [
    file
    for file in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
    if file.name not in OF_THE_LOCALNET | {"assurance.md", "benchmarks.md"}
]


def told(file: Path) -> list[str]:
    """What a file says of it."""
    text = file.read_text().replace(BOUNDS, "")
    return [each.group() for pattern in (CONSTANT, LIFETIME) for each in pattern.finditer(text)]


def test_no_slot_time_or_lifetime_stands_outside_its_room() -> None:
    assert len(SOURCES) > 300
    found = {str(file.relative_to(ROOT)): told(file) for file in (*SOURCES, *PAGES)}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "text",
    [
        "_SLOT_S = 0.4", "_SLOT_MS: Final = 500", "SLOT_TIME_S = 0.4",
        "A blockhash lives 150 slots (about a minute); ten seconds of age leave most of it.",
        "Statuses at the pace of slots (0.4 s); the same bytes again",
        "A slot takes 400 ms where none is skipped", "at most 0.4 s, a slot",
        "as long as its blockhash, 150 blocks, about a minute", "a blockhash lives for 32 s",
    ],
)  # fmt: skip
def test_it_would_be_found(tmp_path: Path, text: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    assert told(file)


# The words of finality.

FINALITY = ROOT / "framework/solward/vault/ledger/finality.py"
# What a cluster calls its blocks; a record's own states are `TransactionStatus`.
WORD = re.compile(r'"finalized"|confirmation(?:Status)?"?\]?\s*(?:==|!=|in|not in)\s')
# The localnet's setting has a value of that name.
SETTINGS = ROOT / "framework/solward/settings/settings.py"


def test_no_other_module_compares_the_words_of_finality() -> None:
    product = [
        file
        for folder in ("framework/solward", "server", "plugins")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if file not in (FINALITY, SETTINGS)
    ]
    found = {str(file.relative_to(ROOT)): WORD.findall(file.read_text()) for file in product}
    assert {name: words for name, words in found.items() if words} == {}
    assert WORD.search('status.confirmation in ("confirmed", "finalized")')
