"""The plugins page in a real browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.support.browser import Browser
from tests.support.plugins import skill_source, wheel
from tests.support.processes import Service

from solward.plugins.folders.install import install
from solward.types.manifest import Manifest, Secret, Terms

pytestmark = pytest.mark.more

MANIFEST = "sites=('a.example.com',), secrets=(__import__('solward').Secret('ACME_KEY', {}),)"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a distribution in a folder of its own."""
    folder = tmp_path_factory.mktemp("service")
    declared = f"__import__('solward').Manifest({MANIFEST.format(repr('a.example.com'))})"
    file = wheel(folder, source=skill_source("acme", manifest=declared))
    secrets = (Secret("ACME_KEY", "a.example.com"),)
    terms = Terms(Manifest(sites=("a.example.com",), secrets=secrets))
    with pytest.MonkeyPatch.context() as patch:
        # pip takes a second, and has nothing to find.
        patch.setattr(
            "solward.plugins.folders.install._checked_report", lambda *_: {"acme-tools": {}}
        )
        install(
            folder / "home",
            str(file),
            accept=lambda _proposal: True,
            declare=lambda _new: {"solward.skills:acme": terms},
        )
    service = Service(folder / "home").start()
    yield service
    service.stop(signal.SIGKILL)


def test_every_skill_and_provider_is_there_with_what_it_takes(browser: Browser) -> None:
    browser.open("/plugins")
    browser.wait_for("Skills (20)")
    assert "No plugin has a problem." in browser.text()
    assert browser.marked("providers").text.count("solward ") == 4
    assert "secret: OPENAI_API_KEY to api.openai.com" in browser.marked("providers").text
    transfer = browser.script(
        "return [...document.querySelectorAll('[data-testid=skills] .sw-list > div')]"
        ".find(each => each.innerText.startsWith('transfer'))"
    )
    transfer.find_element("css selector", ".q-expansion-item .q-item").click()
    browser.wait_for('"additionalProperties": false')
    assert browser.errors() == []


@pytest.mark.parametrize("width", [360, 1280])
def test_what_others_installed_is_there_with_what_was_accepted(
    browser: Browser, width: int
) -> None:
    browser.size(width, 900)
    browser.open("/plugins")
    browser.wait_for("Distributions of third parties (1)")
    shown = browser.marked("distributions").text
    assert "acme-tools\n1.0\nloaded" in shown
    assert "Installed in a separate folder; only plugin hosts run it." in shown
    assert "acme: network: a.example.com" in shown
    assert "acme: secret: ACME_KEY to a.example.com (not set)" in shown
    assert "secret: ACME_KEY to a.example.com (not set)" in browser.marked("skills").text
    assert "address, which gets the key: OPENAI_BASE_URL" in browser.marked("providers").text
    assert browser.script("return document.documentElement.scrollWidth") <= width
    assert browser.errors() == []
