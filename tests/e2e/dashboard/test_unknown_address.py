"""An address that no page has: a page within the frame, with the address as text."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest
from tests.support.browser import Browser, Pages

from solward_dashboard.pages.unknown import similar_pages

pytestmark = pytest.mark.more

HOSTILE = "/walets/<img src=x onerror=alert(1)>\u202e{{7*7}}\n" + "w" * 4_000


def test_it_is_text_within_the_frame_and_leads_on(browser: Browser) -> None:
    browser.answered(quote(HOSTILE))
    assert browser.driver.title == "Unknown address - Solward"
    shown = browser.marked("address")
    assert shown.text.startswith("/walets/<img src=x onerror=alert(1)>")
    assert "{{7*7}}" in shown.text
    assert len(shown.text) <= 200
    assert not shown.find_elements("css selector", "*")
    browser.click("Wallets", within=".sw-card")
    browser.until(lambda: browser.driver.current_url.endswith("/wallets"), "the similar page")


def test_its_status_is_that_it_was_not_found(pages: Pages) -> None:
    page = httpx.get(f"{pages.url}/nowhere")
    assert page.status_code == 404
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/wallet/7", ["Wallets", "Overview"]),
        ("/Agent", ["Agents", "Overview"]),
        ("//evil.example/x", ["Overview"]),
        ("/", ["Overview"]),
        ("/zzzz", ["Overview"]),
    ],
)
def test_similar_pages(path: str, names: list[str]) -> None:
    assert [*similar_pages(path).values()] == names
