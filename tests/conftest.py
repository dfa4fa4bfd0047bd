"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests import postgres as servers

# A busy machine is no failure; pytest-timeout ends what hangs.
settings.register_profile("solward", deadline=None)
settings.load_profile("solward")


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.Postgres]:
    """A PostgreSQL server, started by the first test that asks for it."""
    with servers.server() as running:
        yield running


@pytest.fixture
def postgres_url(postgres: servers.Postgres) -> Iterator[str]:
    """The URL of an empty database."""
    url = postgres.fresh()
    yield url
    postgres.drop(url)
