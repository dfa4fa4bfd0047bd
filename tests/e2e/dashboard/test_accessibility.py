"""Every page and every dialog before axe-core, light and dark, on a desktop and on a phone."""

from __future__ import annotations

import ast
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from nicegui import Client
from tests.support.axe import Finding, findings
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.furnished_service import demo, furnish
from tests.support.keeping_distribution import DISTRIBUTION, SKILL, install_keeping
from tests.support.service_process import Service

import solward_dashboard
from solward_dashboard import pages as dashboard_pages

pytestmark = [pytest.mark.more, pytest.mark.timeout(300)]

SOURCE = Path(solward_dashboard.__file__).parent

Act = Callable[[Browser], object]


def paths() -> list[str]:
    """The path of every page, as the dashboard registers them."""
    if not Client.page_routes:
        dashboard_pages.register()
    return sorted(Client.page_routes.values())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    install_keeping(folder / "home", folder)
    service = demo(folder / "home").start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def ids(service: Service) -> dict[str, str]:
    """What stands for the parameters of the pages' paths."""
    return furnish(service)


@pytest.fixture(scope="module")
def browser(browser: Browser) -> Browser:
    """Without movement, so that nothing is looked at on its way."""
    browser.prefers(motion="reduce")
    return browser


def clicks(*names: str, within: str = "body") -> Act:
    def act(browser: Browser) -> None:
        for name in names:
            browser.click(name, within=within)

    return act


def presses(*testids: str) -> Act:
    def act(browser: Browser) -> None:
        for testid in testids:
            browser.press(testid)

    return act


def first(css: str) -> Act:
    return lambda browser: browser.until(lambda: browser.one(css).click() or True, css)


def fills(label: str, value: str) -> Act:
    return lambda browser: browser.fill(label, value)


def refused_transfer(browser: Browser) -> None:
    """A preview with everything that one can show but effects."""
    browser.fill("To", "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g")
    browser.fill("Amount", "3")
    browser.press("run-transfer")
    browser.marked("refused")


def chooses(label: str, option: str) -> Act:
    return lambda browser: browser.choose(label, option)


# The function that makes a dialog -> a page, and how a person comes to the dialog there.
DIALOGS: Mapping[str, tuple[str, tuple[Act, ...]]] = {
    "freeze._confirmed": ("/", (presses("freeze-all"),)),
    "pages.plugins.settings.edit": ("/plugins", (clicks(f"Settings of {SKILL}"),)),
    "pages.plugins.entries.show_entries": ("/plugins", (clicks(f"Entries of {DISTRIBUTION}"),)),
    "dialogs.confirmed": ("/wallets/{frozen}", (presses("freeze"),)),
    "holds._confirmed": ("/holds", (first('[data-testid^="approve-"]'),)),
    "previews.previewed": ("/wallets/{wallet_id}", (refused_transfer,)),
    "pages.agents.form.create_agent": (
        "/agents",
        (clicks("New agent"), chooses("Start from", "Stake keeper"), presses("create")),
    ),
    "pages.agents.strategy_editor.reviewed": (
        "/agents/{agent_id}",
        (clicks("Change"), fills("Strategy", "always do wait, or not"), presses("save")),
    ),
    "pages.agents.form.change_agent": ("/agents/{agent_id}", (clicks("Change"),)),
    "pages.agents.chat.__init__": ("/agents/{agent_id}", (clicks("Chat with watcher"),)),
    "pages.transactions.detail.show_record": ("/transactions", (first(".ag-row"),)),
    "pages.transactions.contacts.edit_contacts": ("/transactions", (clicks("Contacts"),)),
    "pages.wallets.schedules._runs": ("/wallets/{wallet_id}", (clicks("Runs of look"),)),
    "pages.wallets.schedules._new_fields": (
        "/wallets/{wallet_id}",
        (presses("new-schedule", "confirm"),),
    ),
    "pages.wallets.dialogs.freeze_reason": ("/wallets/{wallet_id}", (presses("freeze"),)),
    "pages.wallets.dialogs.new_tags": ("/wallets/{wallet_id}", (clicks("Edit tags"),)),
    "pages.wallets.dialogs.show_qr": ("/wallets/{wallet_id}", (clicks("Show the QR code"),)),
    "pages.wallets.dialogs.__init__": ("/wallets", (clicks("New wallet"), presses("create"))),
    "pages.admins._create": ("/admins", (clicks("New admin credential"), presses("create"))),
    "pages.admins._show_once": (
        "/admins",
        (clicks("New admin credential"), fills("Name", "once"), presses("create")),
    ),
    "pages.api_keys._create": ("/api-keys", (clicks("New key"), presses("create"))),
    "pages.api_keys._show_once": (
        "/api-keys",
        (clicks("New key"), fills("Name", "once"), presses("create")),
    ),
    "pages.payments._show_payment": (
        "/payments",
        (first('[data-testid^="payment-"] button[aria-label^="Details"]'),),
    ),
    "pages.policy._new_grant": (
        "/policy",
        (clicks("Add a grant"), fills("Grant", "somebody may do something"), presses("check")),
    ),
}


def makers_of_dialogs() -> set[str]:
    """The functions of the dashboard that make a dialog."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = (each for each in ast.walk(function) if isinstance(each, ast.Call))
                if any(ast.unparse(each.func) in ("ui.dialog", "titled") for each in calls):
                    found.add(f"{module}.{function.name}")
    return found - {"dialogs.titled"}


def everywhere(browser: Browser) -> dict[str, Finding]:
    """What is found of what is shown now, each finding where it was seen first."""
    found: dict[str, Finding] = {}
    for size in (DESKTOP, PHONE):
        browser.size(*size)
        for dark in (False, True):
            browser.prefers(scheme="dark" if dark else "light")
            browser.still()
            for each in findings(browser):
                found.setdefault(f"{each.rule} {each.nodes}", each)
    return found


def told(found: Mapping[str, Finding]) -> str:
    return "\n".join(map(str, found.values()))


@pytest.mark.parametrize("path", paths())
def test_a_page_has_no_finding(browser: Browser, ids: dict[str, str], path: str) -> None:
    browser.answered(path.format(**ids))
    found = everywhere(browser)
    assert not found, told(found)


@pytest.mark.parametrize("maker", sorted(DIALOGS))
def test_a_dialog_has_no_finding(browser: Browser, ids: dict[str, str], maker: str) -> None:
    path, acts = DIALOGS[maker]
    browser.size(*DESKTOP)
    browser.answered(path.format(**ids))
    for act in acts:
        act(browser)
        browser.one(".q-dialog .sw-dialog")
        browser.still()
    found = everywhere(browser)
    assert not found, told(found)


def test_every_dialog_is_looked_at() -> None:
    assert makers_of_dialogs() == set(DIALOGS)
