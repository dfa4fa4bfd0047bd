"""Every page and every dialog before axe-core: light on a desktop, and pages dark on a phone too.

`long` runs the other looks, and most dialogs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from tests.e2e.dashboard.views import DIALOGS, OFTEN, makers_of_dialogs, opened_dialog, paths
from tests.promises import promise
from tests.support.browser import DESKTOP, PHONE, Browser, Finding, findings
from tests.support.examples import rest_is_long
from tests.support.processes import Service

pytestmark = pytest.mark.more


class Look(NamedTuple):
    """The size of a window in pixels, and whether its colours are dark."""

    size: tuple[int, int]
    dark: bool


LIGHT, DARK_PHONE = Look(DESKTOP, False), Look(PHONE, True)
DARK, PHONE_LIGHT = Look(DESKTOP, True), Look(PHONE, False)


def seen_in(*first: Look) -> pytest.MarkDecorator:
    """These looks in `make test-more`, the others in `make test-long`."""
    rest = [each for each in (LIGHT, DARK_PHONE, DARK, PHONE_LIGHT) if each not in first]
    return pytest.mark.parametrize(
        "looks",
        [
            pytest.param(list(first), id="first-looks"),
            pytest.param(rest, id="the-others", marks=pytest.mark.long),
        ],
    )


@pytest.fixture(scope="module")
def service(furnished: Service) -> Service:
    return furnished


@pytest.fixture(scope="module")
def browser(browser: Browser) -> Browser:
    """Without movement, so that nothing is looked at on its way."""
    browser.prefers(motion="reduce")
    return browser


def is_dark(browser: Browser) -> bool:
    return bool(browser.script("return document.body.classList.contains('body--dark')"))


def everywhere(browser: Browser, looks: list[Look], within: str = "html") -> dict[str, Finding]:
    """What is found of what is shown now, each finding where it was seen first."""
    found: dict[str, Finding] = {}
    for size, dark in looks:
        browser.size(*size)
        browser.prefers(scheme="dark" if dark else "light")
        browser.until(lambda dark=dark: is_dark(browser) == dark, "the colours to change")
        browser.still()
        for each in findings(browser, within):
            found.setdefault(f"{each.rule} {each.nodes}", each)
    return found


def told(found: Mapping[str, Finding]) -> str:
    return "\n".join(map(str, found.values()))


@promise("pages-are-accessible")
@seen_in(LIGHT, DARK_PHONE)
@pytest.mark.parametrize("path", [*paths(), "/nowhere"])
def test_a_page_has_no_finding(
    browser: Browser, ids: dict[str, str], path: str, looks: list[Look]
) -> None:
    browser.answered(path.format(**ids))
    found = everywhere(browser, looks)
    assert not found, told(found)
    # At a phone's size now.
    assert browser.script("return document.documentElement.scrollWidth") == PHONE[0]
    # None shows a time as the service writes it.
    assert re.findall(r"\S*\d{4}-\d\d-\d\dT\d\d:\S*", browser.text()) == []


@promise("dialogs-are-accessible")
@seen_in(LIGHT)
@pytest.mark.parametrize("maker", rest_is_long(sorted(DIALOGS), *OFTEN))
def test_a_dialog_has_no_finding(
    browser: Browser, ids: dict[str, str], maker: str, looks: list[Look]
) -> None:
    opened_dialog(browser, maker, ids)
    # The page behind it has a test of its own.
    found = everywhere(browser, looks, ".q-dialog")
    assert not found, told(found)


@promise("dialogs-are-accessible")
def test_every_dialog_is_looked_at() -> None:
    assert makers_of_dialogs() == set(DIALOGS)
