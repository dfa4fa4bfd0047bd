"""The files that `make operations` writes are what the declarations make of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.operations import generate


@pytest.mark.parametrize("path", generate.FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_written_file_is_as_the_declarations_make_it(path: Path) -> None:
    assert path.read_text() == generate.FILES[path](), "run `make operations`"
