"""The dashboard by the keyboard alone: every page, every dialog, and what a person does there."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest
from selenium.webdriver.common.keys import Keys
from tests.e2e.dashboard.furnished import held
from tests.e2e.dashboard.views import DIALOGS, OFTEN, opened_dialog, paths
from tests.promises import promise
from tests.support.browser import DESKTOP, PHONE, Browser, Keyboard, Pages, assert_seen
from tests.support.examples import rest_is_long
from tests.support.processes import Service, sol_of

pytestmark = pytest.mark.more

PASSWORD = "open sesame, please"
# The key is shown this once: a press of Escape must not lose it.
PERSISTENT = {"dialogs.show_secret"}
# The overview, and a wallet with its forms and tabs; `long` walks over the other pages.
BUSY = ("/", "/wallets/{wallet_id}")
# Over another dialog, which stays.
NESTED = {"pages.agent_form.review"}
_PLACE = "return [scrollY, getSelection().toString()]"
_TABBABLE = """
const which = "a[href], button, input, textarea, select, [tabindex]";
return [...document.querySelectorAll(which)].filter(each => each.tabIndex >= 0 && !each.disabled
    && each.getClientRects().length && getComputedStyle(each).visibility === "visible"
    // A table is one stop; inside of it the arrows go from cell to cell.
    && !each.closest("[aria-hidden=true], .ag-root-wrapper") && each.wasThere
).map(each => [each.stopId ?? 0, each.outerHTML.slice(0, 160)]);
"""
_ROW = """
const row = document.activeElement.closest("[row-id]");
return [row?.getAttribute("row-index"), row?.getAttribute("row-id")];
"""
_THERE = """
for (const each of document.querySelectorAll("*")) each.wasThere = each.getClientRects().length > 0;
"""


@pytest.fixture(scope="module")
def service(furnished: Service) -> Service:
    return furnished


@pytest.fixture(scope="module")
def pages(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """The dashboard with a password."""
    folder = tmp_path_factory.mktemp("dashboard")
    pages = Pages(f"http://127.0.0.1:{service.port}", folder, DASHBOARD_PASSWORD=PASSWORD).start()
    yield pages
    pages.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def browser(browser: Browser) -> Browser:
    """Logged in, by the keyboard."""
    browser.prefers(motion="reduce")
    browser.driver.get(browser.url)
    keys = Keyboard(browser)
    keys.press(*PASSWORD)
    keys.press(Keys.ENTER)
    browser.wait_for("Recent decisions")
    return browser


@pytest.fixture
def keys(browser: Browser) -> Keyboard:
    browser.size(*DESKTOP)
    browser.prefers(scheme="light")
    return Keyboard(browser)


@promise("tab-reaches-everything")
@pytest.mark.parametrize("path", rest_is_long(paths(), *BUSY))
@pytest.mark.parametrize("look", ["desktop", pytest.param("phone-dark", marks=pytest.mark.long)])
def test_tab_comes_to_everything_on_a_page(
    keys: Keyboard, browser: Browser, ids: dict[str, str], path: str, look: str
) -> None:
    if look == "phone-dark":
        browser.size(*PHONE)
        browser.prefers(scheme="dark")
    browser.answered(path.format(**ids))
    keys.press(Keys.TAB)
    skip = keys.stop()
    assert skip is not None
    assert skip.name == "Skip to the content"
    # What comes meanwhile, such as that there are new entries, may come behind the walk.
    browser.script(_THERE)
    # In their order; a field for a date is several stops, one after the other.
    reached: list[int] = []
    for _ in range(250):
        stop = keys.stop()
        if stop is None or stop.id in reached[:-1]:
            break
        assert_seen(stop)
        if stop.id not in reached:
            reached.append(stop.id)
        keys.press(Keys.TAB)
    else:
        pytest.fail(f"no end after {len(reached)} stops")
    wanted = browser.script(_TABBABLE)
    assert wanted
    missed = [html for at, html in wanted if at not in reached]
    assert not missed
    # And the short way: past the navigation.
    browser.script("document.activeElement.blur(); scrollTo(0, 0)")
    keys.to("Skip to the content")
    keys.press(Keys.ENTER, Keys.TAB)
    first = keys.stop()
    assert first is not None
    assert first.inMain


@promise("table-is-one-tab-stop")
def test_the_table_is_one_stop_and_keeps_the_focus_at_its_record(
    keys: Keyboard, browser: Browser, service: Service, ids: dict[str, str]
) -> None:
    browser.answered("/transactions")
    keys.to("Export CSV")
    keys.press(Keys.TAB, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    place, record = browser.script(_ROW)
    assert (place, bool(record)) == ("1", True)
    # Others come to lie above it.
    with service.client() as api:
        to = api.get(f"/wallets/{ids['frozen']}").json()["publicKey"]
        body = {"to": to, "amount": 0.001}
        sent = api.post(f"/wallets/{ids['wallet_id']}/transfer", json=body)
        assert sent.status_code == 200, sent.text
    browser.until(lambda: browser.script(_ROW)[0] != place, "its record to have moved")
    assert browser.script(_ROW)[1] == record
    keys.press(Keys.TAB)
    # Nothing is behind it on this page, so the walk begins anew.
    stop = keys.stop()
    assert stop is None or stop.name == "Skip to the content"
    keys.to("Export CSV")
    keys.press(Keys.TAB, Keys.ARROW_DOWN)
    assert browser.script(_ROW)[1]
    stop = keys.back().stop()
    assert stop is not None
    assert stop.name == "Export CSV"


@promise("keyboard-alone-suffices")
def test_an_agent_is_selected_paused_and_opened(
    keys: Keyboard, browser: Browser, service: Service, ids: dict[str, str]
) -> None:
    with service.client() as api:
        browser.answered("/agents?q=watcher")
        keys.to("New agent")
        keys.press(Keys.TAB, Keys.ARROW_DOWN, Keys.SPACE)
        browser.marked("pause-selected")
        keys.to("Pause the selected", by=keys.back)
        keys.press(Keys.ENTER)
        focus_in_dialog(keys, browser)
        keys.enter("Pause 1 agent")
        agent = f"/agents/{ids['agent_id']}"
        browser.until(lambda: api.get(agent).json()["status"] == "paused", "it to be paused")
        browser.until(lambda: not browser.all(".q-dialog"), "the dialog to go")
        assert api.post(f"{agent}/start").status_code == 200
        keys.to("New agent")
        keys.press(Keys.TAB, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
        browser.wait_for("Agent watcher")


@promise("dialog-keeps-focus")
@pytest.mark.parametrize("maker", rest_is_long(sorted(DIALOGS), *OFTEN))
def test_a_dialog_keeps_the_focus_and_gives_it_back(
    keys: Keyboard, browser: Browser, ids: dict[str, str], maker: str
) -> None:
    opened_dialog(browser, maker, ids)
    opener = browser.script("return window.openedBy")
    browser.until(lambda: in_dialog(keys), "the dialog to have the focus")
    inside = set()
    for _ in range(60):
        keys.press(Keys.TAB)
        stop = keys.stop()
        if stop is None:
            # Past the last of the document, in the browser's own bars.
            continue
        assert stop.inDialog, stop
        if stop.id in inside:
            break
        assert_seen(stop)
        inside.add(stop.id)
    assert inside
    keys.press(Keys.ESCAPE)
    if maker in PERSISTENT:
        assert browser.all(".q-dialog .sw-dialog")
        keys.enter("I copied it")
    if maker in NESTED:
        browser.until(lambda: len(browser.all(".q-dialog .sw-dialog")) == 1, "the upper one to go")
        return
    browser.until(lambda: not browser.all(".q-dialog .sw-dialog"), "the dialog to go")
    browser.until(lambda: keys.stop() is not None, "something to have the focus")
    back = keys.stop()
    assert back is not None
    assert back.name == opener


def focus_in_dialog(keys: Keyboard, browser: Browser) -> None:
    """Wait until a dialog has the focus: a button behind it may have the name of one in it."""
    browser.one(".q-dialog .sw-dialog")
    browser.until(lambda: in_dialog(keys), "its focus")


@promise("keyboard-alone-suffices")
def test_a_wallet_is_made_and_pays(
    keys: Keyboard, browser: Browser, service: Service, ids: dict[str, str]
) -> None:
    browser.open("/")
    keys.enter("Wallets")
    browser.wait_for("in all")
    keys.enter("New wallet")
    browser.one(".q-dialog .sw-dialog")
    keys.write("Name (optional)", "by hand")
    keys.enter("Create")
    browser.wait_for("0 SOL")
    # From tab to tab by the arrows.
    keys.to("Transfer")
    keys.to("Airdrop", by=lambda: keys.arrow(Keys.ARROW_RIGHT))
    keys.press(Keys.ENTER)
    keys.write("Amount (optional)", "1")
    keys.enter("Ask the faucet")
    browser.wait_for("Airdrop confirmed")
    keys.to("Airdrop", by=keys.back)
    keys.to("Transfer", by=lambda: keys.arrow(Keys.ARROW_LEFT))
    keys.press(Keys.ENTER)
    with service.client() as api:
        to = api.get(f"/wallets/{ids['frozen']}").json()["publicKey"]
        before = sol_of(api, ids["frozen"])
        keys.write("To", to)
        keys.write("Amount", "0.25")
        keys.enter("Send")
        focus_in_dialog(keys, browser)
        keys.enter("Send")
        browser.wait_for("Transfer confirmed")
        assert sol_of(api, ids["frozen"]) - before == Decimal("0.25")
    keys.enter("Freeze")
    focus_in_dialog(keys, browser)
    keys.write("Reason (optional)", "enough")
    keys.enter("Freeze")
    browser.wait_for("Unfreeze")


@promise("keyboard-alone-suffices")
def test_holds_are_approved_and_denied(
    keys: Keyboard, browser: Browser, service: Service, ids: dict[str, str]
) -> None:
    with service.client() as api:
        for verb, state in (("Approve", "executed"), ("Deny", "denied")):
            hold = held(service, ids["wallet_id"])
            browser.open("/")
            keys.enter(browser.marked("waiting-link").accessible_name)
            browser.marked(f"hold-{hold}")
            browser.still()
            keys.enter(verb)
            focus_in_dialog(keys, browser)
            keys.enter(verb)
            browser.until(
                lambda hold=hold, state=state: api.get(f"/holds/{hold}").json()["state"] == state,
                state,
            )
            # The card is drawn anew; the focus stays on the page.
            browser.until(lambda: keys.stop() is not None, "something to have the focus")
            stop = keys.stop()
            assert stop is not None
            assert stop.inMain or stop.tag == "DIV", stop


def in_dialog(keys: Keyboard) -> bool:
    stop = keys.stop()
    return stop is not None and stop.inDialog


def new_wallet(service: Service, _ids: dict[str, str]) -> str:
    with service.client() as api:
        made = api.post("/wallets", json={"name": "newcomer"})
    assert made.status_code == 200, made.text
    return "newcomer"


def new_key(service: Service, _ids: dict[str, str]) -> str:
    with service.client() as api:
        made = api.post("/keys", json={"name": "newly made"})
    assert made.status_code == 200, made.text
    return "newly made"


def new_hold(service: Service, ids: dict[str, str]) -> str:
    return held(service, ids["wallet_id"])


@promise("polls-keep-focus")
@pytest.mark.parametrize(
    ("path", "name", "change"),
    [
        pytest.param("/wallets", "New wallet", new_wallet, marks=pytest.mark.long),
        pytest.param("/api-keys", "Revoke reports", new_key, marks=pytest.mark.long),
        ("/holds", "Approve", new_hold),
    ],
)
def test_a_refresh_keeps_focus_selection_and_place(
    keys: Keyboard,
    browser: Browser,
    service: Service,
    ids: dict[str, str],
    path: str,
    name: str,
    change: Callable[[Service, dict[str, str]], str],
) -> None:
    browser.size(DESKTOP[0], 300)
    browser.answered(path)
    keys.to(name)
    browser.script("getSelection().selectAllChildren(document.querySelector('.sw-title'))")
    browser.script("scrollTo(0, 40)")
    before = [browser.script(_PLACE), keys.stop()]
    new = change(service, ids)
    browser.until(lambda: new in browser.driver.page_source, f"{new} to be shown")
    browser.still()
    after = [browser.script(_PLACE), keys.stop()]
    assert after[0] == before[0]
    assert after[1] is not None
    # It may be drawn anew: what has the focus is the same by name, and not another hold's button.
    assert (after[1].name, after[1].card) == (before[1].name, before[1].card)
