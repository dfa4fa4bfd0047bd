"""What holds for every test."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from tests.support import database as databases
from tests.support.clock import pytest_runtest_teardown, pytest_timeout_set_timer
from tests.support.examples import examples
from tests.support.routes_once import compiled_once

from solward.database.database import Database
from solward.plugins.folders import models
from solward.settings.home import default_models_folder
from solward.telemetry import scrub

__all__ = ["pytest_runtest_teardown", "pytest_timeout_set_timer"]

TESTS = Path(__file__).parent
# `make lint` runs what only compares tables and texts. `make test` runs what opens a service there.
TABLES = {
    *(TESTS / folder for folder in ("docs", "settings")),
    *(
        TESTS / "packaging" / f"test_{name}.py"
        for name in (
            "deploy",
            "entry_points",
            "extras",
            "import_contracts",
            "locks",
            "make_up",
            "vault_tests_imports",
        )
    ),
}

# A busy machine is no failure; pytest-timeout ends what hangs.
settings.register_profile(
    "solward",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("solward")


@pytest.fixture(scope="session", autouse=True)
def _routes() -> Iterator[None]:
    with compiled_once():
        yield


@pytest.fixture(autouse=True)
def _secrets_of_a_test() -> Iterator[None]:
    """A service's secrets are redacted until its process ends, and each test makes its own: without
    this, scrubbing a text costs more with every test before it."""
    before = scrub.known_secrets()
    yield
    scrub._known[:] = before


@pytest.fixture(scope="session")
def postgres() -> Iterator[databases.Postgres]:
    """A PostgreSQL server, started by the first test that asks for it."""
    with databases.postgres_server() as running:
        yield running


@pytest.fixture
def postgres_url(postgres: databases.Postgres) -> Iterator[str]:
    """The URL of an empty database."""
    url = postgres.fresh()
    yield url
    postgres.drop(url)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database in the test's folder."""
    opened = await Database.open(None, tmp_path)
    yield opened
    await opened.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.more)])
async def either_database(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Database]:
    """An empty database of each kind, for tests that hold on both."""
    on_server = request.param == "postgresql"
    opened = await Database.open(
        request.getfixturevalue("postgres_url") if on_server else None, tmp_path
    )
    yield opened
    await opened.close()


@pytest.fixture
async def postgres_database(postgres_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database on PostgreSQL."""
    opened = await Database.open(postgres_url, tmp_path)
    yield opened
    await opened.close()


def pytest_configure(config: pytest.Config) -> None:
    """Let providers call litellm in a test's own process, which has no keys, without a host."""
    if folder := models.installed(default_models_folder()):
        # By this name Hypothesis knows it for a library. It collects the constants of all else,
        # which takes it 10 s.
        place = tempfile.TemporaryDirectory(prefix="solward-models-")
        config.add_cleanup(place.cleanup)
        library = Path(place.name) / "site-packages"
        library.symlink_to(folder)
        sys.path.append(str(library))


def pytest_report_header() -> str:
    """On which database the tests run."""
    return f"databases: {'PostgreSQL' if databases.ON_POSTGRES else 'SQLite'}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `more` what a module's `samples` do not name, and Hypothesis tests as `property`,
    before `-m` selects; skip what is about SQLite where the tests run on PostgreSQL."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")
        samples = item.get_closest_marker("samples")
        if samples is not None:
            for name in samples.args:
                if not hasattr(item.getparent(pytest.Module).obj, name.partition("[")[0]):
                    raise pytest.UsageError(f"samples: {item.path} has no {name}")
            if not {item.name, item.name.partition("[")[0]} & {*samples.args}:
                item.add_marker("more")
        if TABLES & {item.path, item.path.parent} and not {"api", "service"} & {
            *getattr(item, "fixturenames", ())
        }:
            item.add_marker("tables")
        own = item.get_closest_marker("sqlite")
        if databases.ON_POSTGRES and own is not None:
            item.add_marker(pytest.mark.skip(f"SQLite's own: {own.args[0]}"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, which then passes over what that made, and
    seldom starts.

    Collection makes millions of objects and drops few, so each pass of the collector is in vain.
    Afterwards it starts as seldom as in a service; at its usual 700 objects it takes a fifth of
    opening one.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000, 50, 100)


if databases.ON_POSTGRES:

    @pytest.fixture(scope="session", autouse=True)
    def _databases(postgres: databases.Postgres) -> Iterator[databases.Homes]:
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

else:

    @pytest.fixture(scope="session", autouse=True)
    def _databases() -> Iterator[None]:
        with databases.made_once():
            yield
