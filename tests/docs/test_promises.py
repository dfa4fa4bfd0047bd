"""Pages name no test: a promise has a mark, and the tests that attack it carry the mark."""

from __future__ import annotations

import re

import pytest
from tests.docs import assurance
from tests.support.repository import DOCS, ROOT

# Each list item and each row of a table headed "attacked by" on these pages is a promise.
PAGES = [
    "how-to/approvals.md",
    "reference/contract.md",
    "assurance/exactly-once.md",
    "reference/grants.md",
    "how-to/payments.md",
    "assurance/security.md",
    "reference/tokens.md",
    "reference/transactions.md",
]
ATTACKED = re.compile(r"^\|.*\| attacked by \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
SAMPLE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
# A test that is the reader's own, and one of an example that has its own folder.
NAMED = {"test_it_conforms", "test_mpp"}


def clauses(page: str) -> list[str]:
    """The page's list items, each with the lines it goes on over, and its tables' promises."""
    text = (DOCS / page).read_text()
    rows = [row for table in ATTACKED.findall(text) for row in table.splitlines()]
    return rows + re.findall(r"^- .+(?:\n  .+)*", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_clause_has_a_mark(page: str) -> None:
    found = clauses(page)
    assert len(found) > 10
    assert [clause for clause in found if not assurance.MARK.search(clause)] == []


def test_every_promise_has_a_test_and_every_mark_a_sentence() -> None:
    on_pages, on_tests = assurance.shown(), assurance.carried()
    assert {"without a test": on_pages.keys() - on_tests.keys()} == {"without a test": set()}
    assert {"without a sentence": on_tests.keys() - on_pages.keys()} == {
        "without a sentence": set()
    }


def test_no_promise_is_empty() -> None:
    said = assurance.shown().items()
    assert [mark for mark, promises in said if not all(each.sentence for each in promises)] == []


def test_the_page_of_all_promises_is_as_make_assurance_writes_it() -> None:
    assert assurance.PAGE.read_text() == assurance.written()


def test_no_other_page_names_a_test() -> None:
    named = {
        (page.name, name)
        for page in [*assurance.pages(), ROOT / "README.md"]
        for name in re.findall(r"\btest_\w+", SAMPLE.sub("", page.read_text()))
        if name not in NAMED
    }
    assert named == set()
