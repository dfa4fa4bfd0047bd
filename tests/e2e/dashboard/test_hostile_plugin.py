"""What a hostile plugin says of itself, asks for and refuses with is text: nothing of it runs, and
nothing of the page gives way to it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from tests.promises import promise
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.examples import rest_is_long
from tests.support.plugins import HEAD, Shelf, skill_source
from tests.support.processes import Service, funded_wallet

pytestmark = pytest.mark.more

MARKUP = '<img src=x onerror="window.hacked=1"><a href="javascript:window.hacked=1">free SOL</a>'
TEMPLATE = "{{constructor.constructor('window.hacked=1')()}}"
LINK = "[free SOL](javascript:window.hacked=1)"
TURNED = "\N{RIGHT-TO-LEFT OVERRIDE}.dnah yb devorppA"
WORD = "W" * 300
EVIL = f"{MARKUP} {TEMPLATE} {LINK} {TURNED} {WORD}"
SHOWN = "free SOL</a>"
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "note": {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL},
        "kind": {"type": "string", "enum": [EVIL, "plain"], "description": EVIL},
    },
}
SETTINGS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "note": {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL},
        "token": {"type": "string", "secret": True, "title": EVIL, "description": EVIL},
    },
}
SKILL = skill_source(
    "evil",
    schema=repr(SCHEMA),
    body=f"raise SkillError('EVIL', {EVIL!r})",
    settings=repr(SETTINGS),
    effects="Effects.SPEND",
).replace("'Does evil.'", repr(EVIL))
RULE = (
    HEAD
    + f"""
@hookimpl
def guardrail_check(intent):
    return {EVIL!r} if intent.type == "transfer" else None
"""
)
# What is wider than the window, where nothing scrolls by itself.
WIDE = """
return [...document.querySelectorAll(".sw-main *, .q-dialog *, .q-notifications *")]
    .filter(each => each.getClientRects().length && !each.closest(".q-tabs, .ag-root, svg"))
    .filter(each => each.getBoundingClientRect().right
        > document.documentElement.clientWidth + 1)
    .map(each => `${each.className}: ${each.textContent.slice(0, 60)}`);
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a skill and a rule of somebody hostile."""
    shelf = Shelf(tmp_path_factory.mktemp("site"))
    shelf.install("evil-skills", {"evil": SKILL})
    shelf.install("evil-rules", {"evil_rule": RULE}, "solward.guardrails")
    home = tmp_path_factory.mktemp("service") / "home"
    service = Service(home, PYTHONPATH=str(shelf.path)).start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def wallet(api: httpx.Client) -> str:
    """One whose transfer was refused."""
    wallet = funded_wallet(api, "till", 3)
    to = api.get(f"/wallets/{wallet}").json()["publicKey"]
    refused = api.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 0.1})
    assert refused.status_code == 500, refused.text
    assert SHOWN in refused.text.replace('\\"', '"')
    return wallet


@pytest.fixture(params=rest_is_long([DESKTOP, PHONE], PHONE), ids=["desktop", "phone"])
def sized(browser: Browser, wallet: str, request: pytest.FixtureRequest) -> Iterator[Browser]:
    browser.size(*request.param)
    yield browser
    browser.size(*DESKTOP)


def harmless(browser: Browser) -> None:
    assert browser.script("return window.hacked ?? null") is None
    assert browser.script("return document.querySelectorAll('img[src=x]').length") == 0
    assert browser.script("return document.querySelectorAll('[href^=javascript]').length") == 0
    assert browser.errors() == []
    browser.still()
    assert browser.script(WIDE) == []
    # Not the window's inner width, which on a phone grows with what does not fit.
    page = "document.documentElement"
    assert browser.script(f"return {page}.scrollWidth <= {page}.clientWidth")


def unfolded(browser: Browser) -> None:
    for each in browser.all(".q-expansion-item [aria-expanded=false]"):
        browser.script("arguments[0].click()", each)


@promise("others-text-stays-text")
def test_what_it_says_of_itself(sized: Browser) -> None:
    sized.answered("/plugins")
    sized.fill("Search plugins", "evil")
    sized.until(lambda: sized.marked("found").text.startswith("2 of "), "the skill and the rule")
    assert SHOWN in sized.text()
    unfolded(sized)
    harmless(sized)
    sized.click("Settings of evil")
    sized.wait_for("Changes apply from the skill's next call on.")
    harmless(sized)


def test_what_it_asks_for_and_ends_with(sized: Browser, wallet: str) -> None:
    sized.answered(f"/wallets/{wallet}")
    # On a phone it is beyond the edge of the tabs, which scroll.
    sized.script("[...document.querySelectorAll('[role=tab]')].at(-1).click()")
    sized.press("skill")
    sized.marked("skill").send_keys("evil")
    sized.click("evil (evil-skills)", within=".q-menu")
    sized.wait_for(SHOWN)
    harmless(sized)
    sized.press("run-evil")
    sized.wait_for("This skill has no dry run")
    harmless(sized)
    sized.press("confirm")
    outcome = sized.marked("outcome-evil")
    sized.until(lambda: SHOWN in outcome.text, "how it ended")
    harmless(sized)


@promise("model-replies-stay-text")
def test_what_its_rule_refuses_with(sized: Browser, api: httpx.Client, wallet: str) -> None:
    to = api.get(f"/wallets/{wallet}").json()["publicKey"]
    sized.answered(f"/wallets/{wallet}")
    sized.fill("To", to)
    sized.fill("Amount", "0.1")
    sized.press("run-transfer")
    sized.until(lambda: SHOWN in sized.marked("refused").text, "the refusal")
    assert not sized.all('[data-testid="confirm"]')
    harmless(sized)
    (refused,) = (
        each
        for each in api.get(f"/wallets/{wallet}/transactions").json()["transactions"]
        if each["status"] == "blocked"
    )
    for path, text in (
        ("/", SHOWN),
        (f"/transactions/{quote(refused['id'])}", SHOWN),
        ("/transactions", "blocked"),
        ("/audit", "transaction:blocked"),
    ):
        sized.answered(path)
        sized.wait_for(text)
        # What stands after it is read in its own direction.
        assert TURNED[0] not in sized.text()
        unfolded(sized)
        harmless(sized)
