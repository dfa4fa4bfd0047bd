"""Every clause of the contract and every promise of exactly-once names a test that is there."""

from __future__ import annotations

import re

import pytest
from tests.support.repository import DOCS, TESTS

HOLDER = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def clauses(page: str) -> list[str]:
    """The page's list items, each with the lines it goes on over."""
    return re.findall(r"^- .+(?:\n  .+)*", (DOCS / page).read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", ["contract.md", "exactly-once.md"])
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
