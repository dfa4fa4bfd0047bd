"""A secret setting is found in whichever form a text has it."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from solward.testing.canaries import Canaries

SECRET = "pa\"ss\\wo/rd'with&signs"


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps({"key": SECRET}),
        repr([SECRET]),
        f"https://api.example.com/?key={quote(SECRET, safe='')}",
        f"https://api.example.com/{quote(SECRET)}",
        SECRET.encode().hex(),
        *(
            base64.b64encode(f"{'u' * before}{SECRET}{after}".encode()).decode()
            for before in range(4)
            for after in ("", "x", "xy")
        ),
    ],
)
def test_a_secret_setting_is_found_and_hidden_in_every_form(text: str) -> None:
    canaries = Canaries()
    canaries.setting("pin", SECRET)
    assert canaries.found_in(text) == ["the secret setting pin"]
    assert canaries.redact(text) != text
