"""What a page says while the service does not answer: its process is stopped, so that its socket
accepts and nothing comes back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.promises import promise
from tests.support.browser import Browser, Pages
from tests.support.processes import Service

pytestmark = pytest.mark.more

# It takes half a second on an idle machine.
SOON_S = 2.5
LATE = "The service has not answered for 3 s."
# The dashboard with a time-out of 8 s instead of 15.
_IMPATIENT = """
import runpy, solward_dashboard.frame
solward_dashboard.frame._TIMEOUT_S = 8.0
runpy.run_module("solward_cli", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def pages(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    pages = Pages(f"http://127.0.0.1:{service.port}", tmp_path_factory.mktemp("dashboard"))
    pages.program = ("-c", _IMPATIENT)
    yield pages.start()
    pages.stop(signal.SIGKILL)


@contextmanager
def hanging(service: Service) -> Iterator[None]:
    """The service accepts connections and answers nothing."""
    assert service.process is not None
    service.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        service.process.send_signal(signal.SIGCONT)


@promise("waiting-is-shown")
def test_a_page_says_that_it_waits_then_that_it_is_late_then_offers_to_try_again(
    browser: Browser, service: Service
) -> None:
    browser.answered("/wallets")
    with hanging(service):
        browser.open("/agents")
        browser.one(".sw-progress", SOON_S)
        assert browser.all(".sw-main[aria-busy=true]")
        assert LATE not in browser.text()
        browser.wait_for(LATE, 6)
        banner = browser.marked("banner")
        assert "did not answer within 8 s" in banner.text
        assert not browser.all(".sw-progress")
        browser.click("Try again")
        browser.one(".sw-progress", SOON_S)
    browser.until(lambda: not browser.all('[data-testid="banner"]'), "the banner to go")
    browser.wait_for("No agent yet")
    assert LATE not in browser.text()


@promise("waiting-is-shown")
@pytest.mark.parametrize(
    ("path", "opener", "button"),
    [("/wallets", "New wallet", "create"), ("/policy", "", "freeze-all")],
    ids=["dialog", "page"],
)
def test_a_button_spins_while_the_service_hangs(
    browser: Browser, service: Service, path: str, opener: str, button: str
) -> None:
    browser.answered(path)
    if opener:
        browser.click(opener)
        browser.still()
    spinning = f'[data-testid="{button}"]:disabled .q-spinner'
    with hanging(service):
        browser.press(button)
        browser.one(spinning, SOON_S)
        browser.one(".sw-progress", SOON_S)
        browser.wait_for(LATE, 6)
    browser.until(lambda: not browser.all(spinning), "the spinner to go")
    browser.wait_gone(LATE)
