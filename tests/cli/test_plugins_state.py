"""`solward plugins settings` and `store`: what is set and kept, and what a wrong name is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import Live
from tests.support.hosts import without_pip
from tests.support.plugins import skill_source, wheel

from solward.plugins.folders import install as folders

pytestmark = pytest.mark.more

SETTINGS = (
    '{"type": "object", "additionalProperties": False, "required": ["token"], "properties": {'
    '"token": {"type": "string", "secret": True},'
    '"hours": {"type": "integer", "minimum": 1, "default": 6, "description": "Between two."}}}'
)


@pytest.fixture
def acme(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A skill with settings that the running service has loaded."""
    without_pip(monkeypatch)
    path = wheel(tmp_path, source=skill_source("acme", settings=SETTINGS))
    folders.install(live.home, str(path), accept=lambda _proposal: True)
    deadline = time.monotonic() + 20
    while "\nacme " not in live.run("skills", "list"):
        assert time.monotonic() < deadline, "the service has not loaded it"
        time.sleep(0.1)
    yield "acme"
    folders.remove(live.home, "acme-tools")


def test_settings_are_shown_with_type_default_and_what_is_required(live: Live, acme: str) -> None:
    shown = live.run("plugins", "settings", "show", acme).splitlines()
    assert [" ".join(line.split()) for line in shown] == [
        "NAME STATE VALUE TYPE TAKES DESCRIPTION",
        "hours not set - integer default 6; at least 1 Between two.",
        "token not set - secret required -",
    ]
    said = live.error("plugins", "settings", "unset", acme, "nosuch")
    assert said == "setting must be one of token, hours; got 'nosuch'"
    assert "is not set" in live.run("plugins", "settings", "unset", acme, "hours")


def test_a_store_of_nobody_is_an_error(live: Live, acme: str) -> None:
    wallet = live.wallet(0)
    said = live.error("plugins", "store", "list", "nope", "--wallet", wallet)
    assert said == "No distribution 'nope' is installed, and no entries have that name"
    assert live.run("plugins", "store", "list", "Acme_Tools", "--wallet", wallet) == "No entries.\n"
    said = live.error("plugins", "store", "delete", "solward", "x", "--wallet", wallet)
    assert said == "solward keeps no entry 'x' for this wallet"
    assert acme in live.run("skills", "list")
