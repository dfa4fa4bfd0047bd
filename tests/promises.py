"""The mark of a promise that the docs make, on each test that attacks it.

A page ends the sentence of a promise with its mark as a link to docs/assurance/promises.md; a
test of it carries `@promise("limits-count-bytes")`, a module `pytestmark = promise(...)`.
`make assurance` writes that page, which lists each mark with its sentence and its tests.
"""

from __future__ import annotations

import pytest

promise = pytest.mark.promise
