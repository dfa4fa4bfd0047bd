"""`/docs` in a real browser: offline, and a request made from it with what "Authorize" was told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.browser import Browser
from tests.support.processes import SECRET, Service

pytestmark = pytest.mark.more


@pytest.fixture
def page(contract: Service) -> Iterator[Browser]:
    browser = Browser(contract.url.removesuffix("/api/v1"), traffic=True)
    yield browser
    browser.quit()


def test_a_request_is_made_from_the_page_and_nothing_leaves_for_elsewhere(
    contract: Service, page: Browser
) -> None:
    with contract.client() as client:
        wallet = client.post("/wallets", json={"name": "on the page"}).json()["walletId"]
    page.driver.get(f"{page.url}/docs#/wallets/listWallets")
    page.click("Authorize")
    page.one('input[id="auth-bearer-value"], .auth-container input').send_keys(SECRET)
    page.one(".auth-btn-wrapper button.authorize").click()
    page.one(".auth-btn-wrapper button.btn-done").click()
    page.one(".try-out__btn").click()
    page.one("button.execute").click()
    page.wait_for(wallet)
    assert "on the page" in page.text()
    assert page.errors() == []
    asked = {
        message["params"]["request"]["url"]
        for message in page.traffic()
        if message["method"] == "Network.requestWillBeSent"
    }
    assert f"{contract.url}/wallets?createdBy=false" in asked
    elsewhere = [url for url in asked if not url.startswith((page.url, "data:", "blob:"))]
    assert elsewhere == []
    # The credential is the page's alone: it is gone with it.
    assert SECRET not in str(page.script("return JSON.stringify({...localStorage})"))
