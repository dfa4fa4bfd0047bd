"""The plugins page in a real browser."""

from __future__ import annotations

from tests.support.browser import Browser


def test_every_skill_and_provider_is_there_with_what_it_takes(browser: Browser) -> None:
    browser.open("/plugins")
    browser.wait_for("Skills (18)")
    assert "Everything that is installed could be loaded." in browser.text()
    assert browser.marked("providers").text.count("solward ") == 4
    assert "secret: OPENAI_API_KEY to api.openai.com" in browser.marked("providers").text
    transfer = browser.script(
        "return [...document.querySelectorAll('[data-testid=skills] .sw-list > div')]"
        ".find(each => each.innerText.startsWith('transfer'))"
    )
    transfer.find_element("css selector", ".q-expansion-item .q-item").click()
    browser.wait_for('"additionalProperties": false')
    assert browser.errors() == []
