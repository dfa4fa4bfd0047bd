"""The transactions page in a real browser."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.keys import Keys
from sqlalchemy import insert, select
from tests.promises import promise
from tests.support.browser import PHONE, Browser, Pages
from tests.support.processes import Service, funded_wallet

from solward.database.database import Database
from solward.database.tables import transactions, wallets
from solward.support.clock import now_ms

pytestmark = pytest.mark.more

MANY = 1_000
PAID = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
ALIKE = "9B5XszUGdMaxaZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
# Of the page's own thread, on a processor that another test shares: alone it is below 200.
LONG_TASK_MS = 500
WATCH = """
window.longTasks = [];
new PerformanceObserver(list => {
  for (const each of list.getEntries()) window.longTasks.push(each.duration);
}).observe({type: "longtask"});
"""


def rows(browser: Browser) -> list[str]:
    found: list[str] = browser.script(
        "return [...document.querySelectorAll('.ag-center-cols-container .ag-row')]"
        ".sort((a, b) => a.getAttribute('row-index') - b.getAttribute('row-index'))"
        ".map(row => row.innerText)"
    )
    return found


def first_row(browser: Browser, text: str) -> None:
    browser.until(lambda: (rows(browser) or [""])[0].find(text) >= 0, f"a first row with {text}")


def work_ms(browser: Browser) -> float:
    """Milliseconds the page's main thread has worked so far, waiting for a processor left out."""
    metrics = browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return 1_000 * float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def longest_task_ms(browser: Browser) -> float:
    """The longest task since the last call, in time that the page had a processor for.

    A task is measured by the clock, which goes on while other processes of the machine have the
    processor; how much that is, a loop tells that does nothing else.
    """
    longest = float(browser.script("return Math.max(0, ...window.longTasks.splice(0))"))
    before = work_ms(browser)
    clock = browser.script(
        "const start = performance.now(); while (performance.now() - start < 300);"
        "return performance.now() - start"
    )
    browser.script("window.longTasks.length = 0")
    return longest * min(1.0, (work_ms(browser) - before) / clock)


def _count(api: httpx.Client) -> int:
    return len(api.get("/transactions").json()["transactions"])


# What the tests before made, also where another process has run these.
@pytest.fixture(scope="module")
def three(api: httpx.Client) -> None:
    if _count(api) == 0:
        wallet = funded_wallet(api, "payroll", 2)
        to = api.get(f"/wallets/{funded_wallet(api, 'shop', 0)}").json()["publicKey"]
        for amount in (0.25, 5):
            api.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": amount})
    assert _count(api) == 3


@pytest.fixture(scope="module")
def five(api: httpx.Client, three: None) -> None:
    if _count(api) == 3:
        _pay_two(api)
        api.post("/contacts", json={"address": PAID, "name": "Landlord"})
    assert _count(api) == 5


def _pay_two(api: httpx.Client) -> None:
    (payroll,) = (
        each for each in api.get("/wallets").json()["wallets"] if each["name"] == "payroll"
    )
    for to, amount in ((PAID, 0.01), (ALIKE, 5)):
        api.post(f"/wallets/{payroll['id']}/transfer", json={"to": to, "amount": amount})


def test_what_is_done_and_refused_appears_by_itself(browser: Browser, api: httpx.Client) -> None:
    browser.open("/transactions")
    browser.wait_for("No transaction yet")
    wallet = funded_wallet(api, "payroll", 2)
    to = api.get(f"/wallets/{funded_wallet(api, 'shop', 0)}").json()["publicKey"]
    first_row(browser, "airdrop")
    api.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 0.25})
    first_row(browser, "0.25 SOL")
    assert api.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 5}).status_code == 500
    first_row(browser, "blocked")
    assert "5 SOL is more than the 2 SOL allowed" in rows(browser)[0]
    # Who asked, by name.
    assert "you (admin)" in rows(browser)[0]
    browser.wait_for("3 transactions")
    assert browser.errors() == []


@pytest.mark.usefixtures("three")
def test_one_of_them_tells_everything(browser: Browser, api: httpx.Client) -> None:
    browser.open("/transactions")
    browser.wait_for("3 transactions")
    [blocked, sent, _] = api.get("/transactions").json()["transactions"]
    browser.one(f'.ag-row[row-id="{blocked["id"]}"]').click()
    browser.wait_for("max_per_tx refused")
    browser.wait_for(blocked["error"])
    browser.click("Close")
    browser.wait_gone("max_per_tx refused")
    browser.one(f'.ag-row[row-id="{sent["id"]}"]').click()
    assert browser.marked("signature").text == sent["signature"]
    # Nobody else can look up what is on this machine's own ledger.
    assert "explorer" not in browser.text()
    browser.click("Copy signature")
    browser.wait_for("Signature copied")
    browser.click("Close")


@pytest.mark.usefixtures("three")
def test_recipients_are_named_and_a_look_alike_is_told(browser: Browser, api: httpx.Client) -> None:
    _pay_two(api)
    browser.open("/transactions")
    first_row(browser, "9B5X…Ns6g")
    browser.click("Contacts")
    browser.wait_for("No contact yet.")
    browser.fill("Name", "Landlord")
    browser.fill("Address", ALIKE[:-4])
    browser.press("add-contact")
    browser.wait_for("address must be an address")
    browser.fill("Address", PAID)
    browser.press("add-contact")
    browser.wait_gone("No contact yet.")
    browser.click("Close")
    first_row(browser, "not Landlord, looks like it: 9B5X…Ns6g")
    assert "Landlord" in rows(browser)[1].splitlines()
    # An own wallet is called one: whoever holds a key names wallets too.
    assert "wallet shop" in rows(browser)[2]
    assert browser.errors() == []


@pytest.mark.usefixtures("five")
def test_it_is_filtered_by_recipient_and_day_and_exported(
    browser: Browser, api: httpx.Client
) -> None:
    browser.open("/transactions")
    browser.wait_for("5 transactions")
    browser.fill("To", "Nobody")
    browser.wait_for("recipient must be an address, or the name of a contact")
    browser.fill("To", "Landlord")
    browser.wait_for("1 transaction")
    assert "0.01 SOL" in rows(browser)[0]
    browser.script(
        "window.opened = []; const click = HTMLAnchorElement.prototype.click;"
        "HTMLAnchorElement.prototype.click = function () {"
        " if (this.href.includes('.csv')) window.opened.push(this.href); else click.call(this) }"
    )
    browser.click("Export CSV")
    (address,) = browser.until(lambda: browser.script("return window.opened"), "a download")
    answer = httpx.get(address)
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    (line,) = csv.DictReader(io.StringIO(answer.text))
    assert (line["amount"], line["unit"], line["counterpart name"]) == ("0.01", "SOL", "Landlord")
    bad = httpx.get(str(httpx.URL(address).copy_with(params={"status": "no"})))
    assert (bad.status_code, "status must be one of" in bad.text) == (400, True)
    bad = httpx.get(str(httpx.URL(address).copy_with(params={"since": "2026-01-01"})))
    assert bad.status_code == 400
    browser.fill("To", "")
    browser.wait_for("5 transactions")


@pytest.mark.usefixtures("five")
def test_a_phone_shows_two_lines_a_row_without_scrolling_sideways(browser: Browser) -> None:
    browser.size(*PHONE)
    try:
        browser.open("/transactions")
        first_row(browser, "blocked")
        above, below = browser.script(
            "return [...document.querySelectorAll('[row-index=\"1\"] .sw-two-lines > div')]"
            ".map(line => [...line.children].map(each => each.innerText))"
        )
        assert above == ["confirmed", "0.01 SOL", "Landlord"]
        assert below[1:] == ["payroll", "you (admin)"]
        table = "document.querySelector('.ag-center-cols-viewport')"
        for within in ("document.documentElement", table):
            fits = f"return {within}.scrollWidth <= {within}.clientWidth"
            browser.until(lambda fits=fits: browser.script(fits), f"{within} to fit")
    finally:
        browser.size(1280, 900)


@promise("address-holds-the-view")
@pytest.mark.usefixtures("five")
def test_filters_sorting_and_columns_stand_in_the_address(
    browser: Browser, api: httpx.Client
) -> None:
    wallet = api.get("/transactions").json()["transactions"][0]["walletId"]
    link = f"/transactions?status=blocked&rule=max_per_tx&wallet={wallet}"
    browser.open(link)
    browser.wait_for("2 transactions")
    assert all("blocked" in each for each in rows(browser))
    browser.choose("Status", "Any status")
    browser.fill("Refused by rule", "")
    browser.wait_for("5 transactions")
    assert "status" not in browser.driver.current_url
    browser.one('.ag-header-cell[col-id="amount"]').click()
    browser.wait_for("sorted within this page")
    first_row(browser, "0.01 SOL")
    browser.choose("Columns", "Fee")
    browser.driver.find_element("css selector", "body").send_keys(Keys.ESCAPE)
    first_row(browser, "0.000005 SOL")
    address = browser.driver.current_url
    browser.driver.refresh()
    first_row(browser, "0.000005 SOL")
    assert (browser.driver.current_url, "0.01 SOL" in rows(browser)[0]) == (address, True)
    browser.open(link)
    browser.wait_for("2 transactions")
    browser.choose("Status", "confirmed")
    browser.wait_for("No transaction fits the filters.")
    browser.driver.back()
    browser.wait_for("2 transactions")
    assert browser.driver.current_url.endswith(link)
    assert browser.errors() == []


@promise("address-holds-the-view")
@pytest.mark.usefixtures("five")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status=<script>alert(1)</script>", "Nothing is shown: status must be one of"),
        (f"q={'x' * 10_000}", "Nothing is shown: q must be a string of 1 to 200"),
        ("<b>field</b>=1", "This page has no filter named <b>field</b>."),
        ("wallet=nobody", "Nothing is shown: Wallet not found"),
        ("since=never&page=-1", "Nothing is shown: since must be a day"),
        ("page=150", "There is no page 150."),
        ("page=99999", "Nothing is shown: page must be at most 200"),
    ],
)
def test_a_hostile_address_is_answered_in_clear_text(
    browser: Browser, query: str, said: str
) -> None:
    browser.open(f"/transactions?{query}")
    browser.wait_for(said)
    assert "Trying again" not in browser.text()
    # And the page goes on.
    browser.open("/transactions")
    browser.wait_for("5 transactions")
    assert browser.errors() == []


@pytest.fixture
def long_history(tmp_path: Path) -> Iterator[Service]:
    """A service whose one wallet has a thousand records."""
    service = Service(tmp_path / "s" / "home")
    service.home.parent.mkdir()
    service.start()
    with service.client() as api:
        funded_wallet(api, "busy", 0)
    service.stop()
    asyncio.run(fill(service.home))
    yield service.start()
    service.stop(signal.SIGKILL)


async def fill(home: Path) -> None:
    database = await Database.open(None, home)
    now = now_ms()
    try:
        async with database.write() as connection:
            wallet_id = (await connection.execute(select(wallets.c.id))).scalar_one()
            await connection.execute(
                insert(transactions),
                [
                    {
                        "id": f"{number:032x}",
                        "wallet_id": wallet_id,
                        "principal": "admin",
                        "type": "transfer",
                        "status": "confirmed",
                        "signature": f"{number:088x}",
                        "details": json.dumps({"to": "b" * 44, "amount": 0.001}),
                        "guardrails_applied": ["max_per_tx"],
                        "held_lamports": 0,
                        "created_ms": now - 1_000 * (MANY - number),
                    }
                    for number in range(MANY)
                ],
            )
    finally:
        await database.close()


def test_a_thousand_are_turned_over_without_the_page_standing_still(
    long_history: Service, tmp_path: Path
) -> None:
    pages = Pages(f"http://127.0.0.1:{long_history.port}", tmp_path / "pages").start()
    browser = Browser(pages.url)
    try:
        browser.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        browser.open("/transactions")
        browser.wait_for("Transactions 1 to 50, newest first")
        longest_ms = []
        browser.script(WATCH)
        for page in (2, 3, 4):
            browser.click(str(page), within=".q-pagination")
            browser.wait_for(f"Transactions {50 * page - 49} to {50 * page}, newest first")
            longest_ms.append(longest_task_ms(browser))
        # A page far behind is found by its number alone, and the pages miss no record.
        browser.open("/transactions?page=20")
        browser.wait_for("Transactions 951 to 1,000, newest first")
        browser.script(WATCH)
        browser.script("document.querySelector('.ag-body-viewport').scrollTop = 20000")
        browser.until(lambda: rows(browser), "rows")
        longest_ms.append(longest_task_ms(browser))
        assert max(longest_ms) < LONG_TASK_MS, f"longest task of each step: {longest_ms}"
        assert len(rows(browser)) < 100
    finally:
        browser.quit()
        pages.stop(signal.SIGKILL)
