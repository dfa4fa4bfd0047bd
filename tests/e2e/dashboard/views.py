"""What of the dashboard can be looked at: its pages by its own table, the way to each dialog."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

from nicegui import Client
from tests.support.browser import DESKTOP, Browser
from tests.support.plugins import DISTRIBUTION, SKILL

import solward_dashboard
from solward_dashboard import pages

# What makes a dialog, called by whoever says what is in it.
MAKERS = ("ui.dialog", "titled_dialog", "ask_form", "ask_note", "show_dialog")
_SOURCE = Path(solward_dashboard.__file__).parent
# What had the focus when a dialog was opened, by its name.
_REMEMBER_OPENER = """
document.addEventListener("focusin", ({target}) => {
    if (target.closest(".q-dialog, .q-menu")) return;
    // By a mouse a button's own part has it.
    target = target.closest("button, a") ?? target;
    const text = target.cloneNode(true);
    text.querySelectorAll(".q-icon").forEach(icon => icon.remove());
    window.openedBy = target.getAttribute("aria-label")
        || text.textContent.replace(/\\s+/g, " ").trim() || target.labels?.[0]?.textContent;
});
"""

Act = Callable[[Browser], object]


def paths() -> list[str]:
    """The path of every page, as the dashboard registers them."""
    if not Client.page_routes:
        pages.register()
    return sorted(Client.page_routes.values())


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


def shows(testid: str) -> Act:
    return lambda browser: browser.marked(testid)


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


def pauses_first(browser: Browser) -> None:
    """Select the first row of a table, and ask for its pause."""
    first(".ag-row .ag-selection-checkbox")(browser)
    browser.press("pause-selected")


def chooses(label: str, option: str) -> Act:
    return lambda browser: browser.choose(label, option)


# The function that makes a dialog -> a page, and how a person comes to the dialog there.
DIALOGS: Mapping[str, tuple[str, tuple[Act, ...]]] = {
    "frame._ask_reason": ("/", (presses("freeze-all"),)),
    "pages.plugins.edit_settings": ("/plugins", (clicks(f"Settings of {SKILL}"),)),
    "pages.plugins.show_entries": ("/plugins", (clicks(f"Entries of {DISTRIBUTION}"),)),
    "leaving.confirm_preview": ("/wallets/{wallet_id}", (refused_transfer,)),
    "dialogs.confirmed": ("/wallets/{frozen}", (presses("freeze"),)),
    "pages.holds._ask_decision_note": ("/holds", (first('[data-testid^="approve-"]'),)),
    "pages.agent_form.create_agent": (
        "/agents",
        (clicks("New agent"), chooses("Start from", "Balance reporter"), presses("create")),
    ),
    "pages.agent_form.review": (
        "/agents/{agent_id}",
        (clicks("Change"), fills("Strategy", "always do wait, or not"), presses("save")),
    ),
    "pages.agent_form.change_agent": ("/agents/{agent_id}", (clicks("Change"),)),
    "lists._change_selected": ("/agents", (pauses_first,)),
    "pages.agents.__init__": ("/agents/{agent_id}", (clicks("Chat with watcher"),)),
    "pages.transaction.show_record": ("/transactions", (first(".ag-row"),)),
    "pages.transactions.edit_contacts": ("/transactions", (clicks("Contacts"),)),
    "pages.wallet_actions._show_runs": ("/wallets/{wallet_id}", (clicks("Runs of look"),)),
    "pages.wallet_actions._ask_schedule": (
        "/wallets/{wallet_id}",
        (presses("new-schedule", "confirm"),),
    ),
    "pages.wallet._toggle_freeze": ("/wallets/{wallet_id}", (presses("freeze"),)),
    "pages.wallet._set_ceilings": ("/wallets/{wallet_id}", (clicks("Set ceilings"),)),
    "pages.wallet._edit_tags": ("/wallets/{wallet_id}", (clicks("Edit tags"),)),
    "pages.wallet._show_qr": ("/wallets/{wallet_id}", (clicks("Show the QR code"),)),
    "pages.wallets.create_wallet": (
        "/wallets",
        (clicks("New wallet", "Add to tags"), presses("create")),
    ),
    "pages.credentials._create": ("/admins", (clicks("New admin credential"), presses("create"))),
    "dialogs.show_secret": (
        "/api-keys",
        (clicks("New key"), fills("Name", "once"), presses("create"), shows("key")),
    ),
    "pages.payments._show_payment": (
        "/payments",
        (first('[data-testid^="payment-"] button[aria-label^="Details"]'),),
    ),
    "pages.grant_form.ask_new_grant": (
        "/policy",
        (clicks("Add a grant"), fills("Grant", "somebody may do something")),
    ),
}

# One of each kind: a question, a form, one over another, one that is shown once.
OFTEN = (
    "frame._ask_reason",
    "pages.wallets.create_wallet",
    "pages.agent_form.review",
    "dialogs.show_secret",
)


def makers_of_dialogs() -> set[str]:
    """The functions of the dashboard that make a dialog."""
    found = set()
    for file in _SOURCE.rglob("*.py"):
        module = ".".join(file.relative_to(_SOURCE).with_suffix("").parts)
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = (each for each in ast.walk(function) if isinstance(each, ast.Call))
                if any(ast.unparse(each.func) in MAKERS for each in calls):
                    found.add(f"{module}.{function.name}")
    return found - {
        "dialogs.titled_dialog",
        "dialogs.ask_form",
        "dialogs.ask_note",
        "dialogs.show_dialog",
    }


def opened_dialog(browser: Browser, maker: str, ids: Mapping[str, str]) -> None:
    """Open the dialog that this function of the dashboard makes."""
    path, acts = DIALOGS[maker]
    browser.size(*DESKTOP)
    browser.answered(path.format(**ids))
    browser.script(_REMEMBER_OPENER)
    for act in acts:
        act(browser)
        browser.one(".q-dialog .sw-dialog")
        browser.still()
