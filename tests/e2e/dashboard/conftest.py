"""A service, its dashboard and a browser, each in a process of its own, once a module."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.e2e.dashboard.furnished import demo, furnish
from tests.support.browser import Browser, Pages
from tests.support.processes import Service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test here, of a browser and three processes, more time than others have."""
    for item in items:
        if item.path.parent == Path(__file__).parent and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on the localnet, with no wallet and no agent yet."""
    service = Service(tmp_path_factory.mktemp("service") / "home").start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The demo's service, for a module whose `service` is this one; `ids` fills it."""
    service = demo(tmp_path_factory.mktemp("service") / "home").start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def ids(furnished: Service) -> dict[str, str]:
    """What stands for the parameters of the pages' paths."""
    return furnish(furnished)


@pytest.fixture(scope="module")
def api(service: Service) -> Iterator[httpx.Client]:
    """The service's API with the admin secret."""
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def pages(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """The dashboard in front of the service."""
    address = f"http://127.0.0.1:{service.port}"
    pages = Pages(address, tmp_path_factory.mktemp("dashboard")).start()
    yield pages
    pages.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def browser(pages: Pages) -> Iterator[Browser]:
    """A browser on the dashboard; `open("/wallets")` first."""
    browser = Browser(pages.url)
    yield browser
    browser.quit()
