"""A running service for the commands that call one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.cli_service import Live, live_service


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_service(tmp_path_factory.mktemp("live")) as made:
        yield made
