"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.support import databases
from tests.support import postgres_server as servers

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


def pytest_report_header() -> str:
    """On which database the tests run."""
    return f"databases: {'PostgreSQL' if databases.ON_POSTGRES else 'SQLite'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is SQLite's own where the tests run on PostgreSQL."""
    if databases.ON_POSTGRES:
        for item in items:
            own = item.get_closest_marker("sqlite")
            if own is not None:
                item.add_marker(pytest.mark.skip(f"SQLite's own: {own.args[0]}"))


if databases.ON_POSTGRES:

    @pytest.fixture(scope="session", autouse=True)
    def _databases(postgres: servers.Postgres) -> Iterator[databases.Homes]:
        with databases.on_postgres(postgres) as given:
            yield given

    @pytest.fixture(scope="module", autouse=True)
    def _of_a_module(_databases: databases.Homes) -> Iterator[None]:
        with _databases.scope():
            yield

    @pytest.fixture(autouse=True)
    def _of_a_test(_databases: databases.Homes) -> Iterator[None]:
        with _databases.scope():
            yield
