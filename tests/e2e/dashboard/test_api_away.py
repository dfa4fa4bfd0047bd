"""The API stopped and started again under an open page; and who polls, and when."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.e2e.dashboard.recording_proxy import Between, between
from tests.promises import promise
from tests.support.browser import Browser, Pages
from tests.support.examples import rest_is_long
from tests.support.processes import SECRET, Service, funded_wallet

pytestmark = pytest.mark.more

EVERY_S = {"/": 5.0, "/wallets": 10.0, "/transactions": 3.0, "/agents": 5.0}
ASKED = {
    "/": "/health",
    "/wallets": "/wallets",
    "/transactions": "/transactions",
    "/agents": "/agents",
}

OPENED_AWAY = (
    *EVERY_S, "/payments", "/holds", "/policy", "/api-keys", "/admins", "/plugins", "/audit",
)  # fmt: skip


@pytest.fixture(scope="module")
def watched(service: Service) -> Iterator[Between]:
    with between(f"http://127.0.0.1:{service.port}") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def pages(watched: Between, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """This module's dashboard calls through the proxy."""
    pages = Pages(watched.url, tmp_path_factory.mktemp("dashboard")).start()
    yield pages
    pages.stop(signal.SIGKILL)


def seen(browser: Browser, on: bool) -> None:
    """The tab goes to the background, or comes back."""
    browser.script(
        "Object.defineProperty(document, 'hidden', {configurable: true, value: !arguments[0]});"
        "document.dispatchEvent(new Event('visibilitychange'));",
        on,
    )


def quiet(proxy: Between, for_s: float, within_s: float = 30.0) -> bool:
    """Whether there comes a time of `for_s` seconds without a request."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        last = proxy.asked[-1].at if proxy.asked else 0.0
        if time.monotonic() - last > for_s:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.long
@promise("dashboard-refreshes")
@pytest.mark.parametrize("path", rest_is_long(EVERY_S, "/transactions"))
def test_a_page_asks_as_often_as_the_contract_says_and_past_caches(
    browser: Browser, watched: Between, path: str
) -> None:
    browser.open(path)
    before = len(watched.of(ASKED[path]))
    browser.until(
        lambda: len(watched.of(ASKED[path])) >= before + 3, "three more requests", timeout_s=50
    )
    asked = watched.of(ASKED[path])[before:]
    pauses = [two.at - one.at for one, two in itertools.pairwise(asked)]
    # Not more often than that; a busy machine may take longer.
    assert min(pauses) > EVERY_S[path] - 1.5
    assert max(pauses) < EVERY_S[path] + 6
    assert {each.cache_control for each in asked} == {"no-store"}


@pytest.mark.long
def test_a_closed_page_does_not_poll(browser: Browser, watched: Between) -> None:
    browser.open("/transactions")
    count = len(watched.asked)
    browser.until(lambda: len(watched.asked) > count, "a request")
    browser.driver.get("about:blank")
    assert quiet(watched, 7.0)


@pytest.mark.long
def test_a_page_in_the_background_does_not_poll_and_is_fresh_when_seen_again(
    browser: Browser, watched: Between
) -> None:
    browser.open("/transactions")
    count = len(watched.asked)
    browser.until(lambda: len(watched.asked) > count, "a request")
    seen(browser, False)
    assert quiet(watched, 7.0)
    count = len(watched.asked)
    seen(browser, True)
    browser.until(lambda: len(watched.asked) > count, "a request", timeout_s=2.5)


@pytest.mark.parametrize("path", rest_is_long(EVERY_S, "/transactions"))
def test_an_api_that_goes_away_is_told_and_its_return_is_seen(
    browser: Browser, service: Service, path: str
) -> None:
    with service.client() as client:
        funded_wallet(client, "kept-in-sight", 1)
        client.post(
            "/agents",
            json={
                "name": "kept-in-sight",
                "llmProvider": "openai",
                "llmModel": "m",
                "strategy": "kept-in-sight",
                "maxSolPerTransaction": 1,
            },
        )
    browser.open(path)
    browser.wait_for("kept-in-sight")
    assert not browser.all('[data-testid="banner"]')
    service.stop(signal.SIGKILL)
    try:
        banner = browser.one('[data-testid="banner"]')
        assert "This page shows the state at" in banner.text
        assert "Trying again" in banner.text
        assert SECRET not in banner.text
        assert "kept-in-sight" in browser.text()
        assert browser.all(".sw-old")
    finally:
        service.start()
    browser.until(lambda: not browser.all('[data-testid="banner"]'), "the banner to go", 40)
    assert not browser.all(".sw-old")
    assert "kept-in-sight" in browser.text()


@pytest.mark.long
@promise("unseen-page-asks-nothing")
def test_a_page_says_of_nothing_that_there_is_none_before_it_was_answered(
    browser: Browser, service: Service
) -> None:
    service.stop(signal.SIGKILL)
    try:
        for path in OPENED_AWAY:
            browser.open(path)
            browser.one('[data-testid="banner"]')
            told = {each.text for each in browser.all(".sw-empty") if each.is_displayed()}
            assert told <= {"", "Asking the service …"}, path
    finally:
        service.start()


def test_what_happened_meanwhile_is_shown_without_a_reload(
    browser: Browser, service: Service
) -> None:
    browser.open("/wallets")
    browser.script("window.sameDocument = true")
    service.stop(signal.SIGKILL)
    browser.one('[data-testid="banner"]')
    service.start()
    with service.client() as client:
        funded_wallet(client, "made-meanwhile", 0)
    browser.wait_for("made-meanwhile", 40)
    assert browser.script("return window.sameDocument") is True


def test_a_wrong_secret_says_which_variable_to_set(
    service: Service, browser: Browser, pages: Pages, tmp_path_factory: pytest.TempPathFactory
) -> None:
    api = f"http://127.0.0.1:{service.port}"
    other = Pages(api, tmp_path_factory.mktemp("wrong"), secret="w" * 40).start()
    try:
        browser.url = other.url
        browser.open("/")
        browser.wait_for("NEXT_PUBLIC_API_SECRET must be the API_SECRET")
        assert "w" * 40 not in browser.driver.page_source
    finally:
        browser.url = pages.url
        other.stop(signal.SIGKILL)


def test_a_socket_that_was_cut_goes_on_with_the_same_page(browser: Browser) -> None:
    browser.open("/")
    browser.script("window.sameDocument = true; window.socket.io.engine.close()")
    browser.until(lambda: browser.script("return window.socket.connected"), "the socket again")
    slot = browser.marked("figure-lan")
    assert slot.is_displayed()
    assert browser.script("return window.sameDocument") is True
    with httpx.Client(base_url=browser.url) as client:
        assert client.get("/").status_code == 200


def test_a_dashboard_that_was_restarted_gets_its_page_back(browser: Browser, pages: Pages) -> None:
    browser.open("/")
    pages.stop(signal.SIGKILL)
    browser.until(lambda: not browser.script("return window.socket.connected"), "the cut")
    pages.start()
    browser.until(
        lambda: browser.script("return !!(window.socket && window.socket.connected)"),
        "the new page",
        60,
    )
    browser.wait_for("Recent decisions", 40)
