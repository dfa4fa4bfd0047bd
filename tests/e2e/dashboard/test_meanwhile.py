"""What happens while a dialog about money is open: a freeze, a lost socket, another tab. Nothing is
paid that was not looked at, and what was is paid once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.browser import Browser, Pages
from tests.support.processes import funded_wallet

from solward.support.jsontext import loads

pytestmark = pytest.mark.more

CONFIRM = '[data-testid="confirm"]'
# By its own hand: a mouse would find the notice of a lost connection before it.
PRESS = f"document.querySelector('{CONFIRM}')?.click()"
AMOUNT = Decimal("0.5")


@pytest.fixture
def wallet(api: httpx.Client, request: pytest.FixtureRequest) -> str:
    return funded_wallet(api, request.node.name[5:40], 4)


@pytest.fixture
def shop(api: httpx.Client) -> str:
    """The address of who is paid."""
    shop = funded_wallet(api, "shop", 0)
    return str(api.get(f"/wallets/{shop}").json()["publicKey"])


@pytest.fixture
def paid(api: httpx.Client, wallet: str) -> Callable[[], list[Decimal]]:
    def transfers() -> list[Decimal]:
        records = loads(api.get(f"/wallets/{wallet}/transactions").content)["transactions"]
        return [each["details"]["amount"] for each in records if each["type"] == "transfer"]

    return transfers


@pytest.fixture
def thawed(api: httpx.Client) -> Iterator[None]:
    yield
    api.post("/unfreeze", json={})


def previewed(browser: Browser, wallet: str, to: str, amount: Decimal = AMOUNT) -> None:
    """A transfer, looked at and not confirmed."""
    browser.answered(f"/wallets/{wallet}")
    browser.fill("To", to)
    browser.fill("Amount", str(amount))
    browser.press("run-transfer")
    browser.marked("confirm")


def connected(browser: Browser) -> bool:
    return bool(browser.script("return !!(window.socket && window.socket.connected)"))


@promise("freeze-skips-run-now")
def test_a_freeze_while_run_now_is_in_its_dialog_runs_nothing(
    browser: Browser,
    api: httpx.Client,
    wallet: str,
    shop: str,
    paid: Callable[[], list[Decimal]],
    thawed: None,
) -> None:
    schedule: dict[str, Any] = {
        "name": "wages",
        "skill": "transfer",
        "parameters": {"to": shop, "amount": 0.5},
        "every": "1h",
    }
    made = api.post(f"/wallets/{wallet}/schedules", json=schedule).json()["id"]
    runs = f"/wallets/{wallet}/schedules/{made}/runs"
    browser.answered(f"/wallets/{wallet}")
    browser.click("Run now of wages")
    browser.marked("confirm")
    assert api.post("/freeze", json={"reason": "incident 11"}).status_code == 200
    browser.press("confirm")
    browser.until(lambda: api.get(runs).json()["runs"], "the run to be told")
    browser.until(lambda: not browser.all(CONFIRM), "its dialog to close")
    browser.click("Runs of wages")
    browser.wait_for("Transactions are frozen: incident 11")
    assert "skipped" in browser.marked("runs").text
    browser.click("Close")
    # It is not made up for.
    api.post("/unfreeze", json={})
    browser.wait_gone("Everything is frozen")
    assert [each["status"] for each in api.get(runs).json()["runs"]] == ["skipped"]
    assert paid() == []


@promise("lost-page-pays-nothing-unseen")
@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "form changed"])
def test_a_confirm_of_a_lost_socket_pays_what_was_previewed_and_once(
    browser: Browser,
    wallet: str,
    shop: str,
    paid: Callable[[], list[Decimal]],
    *,
    changed: bool,
) -> None:
    previewed(browser, wallet, shop)
    browser.script("window.socket.disconnect()")
    browser.until(lambda: not connected(browser), "the socket to be gone")
    if changed:
        field = browser.one('input[aria-label="Amount"]')
        browser.script(
            "arguments[0].value = '0.9'; arguments[0].dispatchEvent(new Event('input'))", field
        )
    browser.script(PRESS)
    browser.script(PRESS)
    assert paid() == []
    browser.script("window.socket.connect()")
    browser.until(lambda: connected(browser), "the socket to be back")

    def decided() -> bool:
        # What was pressed meanwhile may have been lost; then it is pressed again.
        browser.script(PRESS)
        if paid() or "The form has changed" in browser.text():
            return True
        # That it was changed may have been told while the socket was away.
        return changed and not browser.all(CONFIRM)

    browser.until(decided, "a payment, or that it is another one")
    browser.answered(f"/wallets/{wallet}")
    assert paid() in ([[], [AMOUNT]] if changed else [[AMOUNT]])


@promise("lost-page-pays-nothing-unseen")
def test_a_dashboard_that_was_restarted_confirms_nothing_of_before(
    browser: Browser, pages: Pages, wallet: str, shop: str, paid: Callable[[], list[Decimal]]
) -> None:
    previewed(browser, wallet, shop)
    pages.stop(signal.SIGKILL)
    browser.script(PRESS)
    pages.start()
    # The page is another one now, with an empty form.
    browser.until(lambda: connected(browser) and not browser.all(CONFIRM), "the page anew")
    browser.answered(f"/wallets/{wallet}")
    assert paid() == []
    browser.errors()


@promise("lost-page-pays-nothing-unseen")
def test_a_second_tab_changes_nothing_of_what_is_previewed_in_the_first(
    browser: Browser, wallet: str, shop: str, paid: Callable[[], list[Decimal]]
) -> None:
    previewed(browser, wallet, shop)
    driver = browser.driver
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    second = driver.current_window_handle
    try:
        # It has a form of its own, and nothing to confirm in it.
        browser.answered(f"/wallets/{wallet}")
        assert not browser.all(CONFIRM)
        previewed(browser, wallet, shop, Decimal("0.9"))
        driver.switch_to.window(first)
        browser.press("confirm")
        browser.until(paid, "the payment of the first tab")
        browser.until(lambda: not browser.all(CONFIRM), "its dialog to close")
        assert paid() == [AMOUNT]
        driver.switch_to.window(second)
        browser.click("Cancel")
        browser.until(lambda: not browser.all(CONFIRM), "the other dialog to close")
    finally:
        driver.switch_to.window(second)
        driver.close()
        driver.switch_to.window(first)
    assert paid() == [AMOUNT]
