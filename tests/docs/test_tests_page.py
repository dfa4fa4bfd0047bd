"""`tests/README.md` names what there is, and its examples are code of the tests they name."""

from __future__ import annotations

import re
import textwrap

import pytest
from tests.support.repository import ROOT, TESTS

PAGE = (TESTS / "README.md").read_text()
EXAMPLES = re.findall(
    r"^\d+\. \*\*(.+?)\.\*\*.*?`(tests/\S+\.py)`\)\n```python\n(.*?)```", PAGE, re.M | re.S
)


def test_every_module_of_the_vocabulary_has_its_row() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    assert sorted(named) == sorted(each.stem for each in (TESTS / "support").glob("*.py"))
    assert len(EXAMPLES) == 10
    assert PAGE.count("\n") <= 125


@pytest.mark.parametrize(
    ("file", "code"), [each[1:] for each in EXAMPLES], ids=[e[0] for e in EXAMPLES]
)
def test_an_example_is_code_of_a_test(file: str, code: str) -> None:
    lines = [line.strip() for line in textwrap.dedent(code).splitlines()]
    assert "\n".join(lines) in "\n".join(
        line.strip() for line in (ROOT / file).read_text().splitlines()
    )
