"""Every clause of the contract and every promise of the pages beside it names a test."""

from __future__ import annotations

import re

import pytest
from tests.support.repository import DOCS, TESTS

HOLDER = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
PAGES = [
    "approvals.md",
    "contract.md",
    "exactly-once.md",
    "grants.md",
    "payments.md",
    "security.md",
    "tokens.md",
    "transactions.md",
]
# A table of promises says so in its last column.
PROMISES = re.compile(r"^\|.*\| attacked by \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)


def clauses(page: str) -> list[str]:
    """The page's list items, each with the lines it goes on over, and its tables' promises."""
    text = (DOCS / page).read_text()
    rows = [row for table in PROMISES.findall(text) for row in table.splitlines()]
    return rows + re.findall(r"^- .+(?:\n  .+)*", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_clause_names_a_test_that_is_there(page: str) -> None:
    found = clauses(page)
    assert len(found) > 10
    assert [clause for clause in found if not HOLDER.search(clause)] == []
    cited = {holder for clause in found for holder in HOLDER.findall(clause)}
    missing = {
        (path, test)
        for path, test in cited
        if not (TESTS / path).is_file()
        or not re.search(rf"^(?:async )?def {test}\(", (TESTS / path).read_text(), re.MULTILINE)
    }
    assert missing == set()
