"""Text of strangers where a person reads it: all that is there is seen, in its order."""

from __future__ import annotations

import pytest
from tests.promises import promise

from solward.agents.think import block
from solward.support.clean_text import cleaned, one_line
from solward_cli.render import visible

LEGIBLE = [
    "tab\tand\r\nlines",
    "Größe, Ελλάδα, 東京, \U0001f600",
    "שלום עולם, السلام عليكم",
    "می\u200cخواهم",
    "क्\u200dष",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f\u200d\U0001f525",
    "\u2764\ufe0f!",
    "1\ufe0f\u20e3",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb",
]
UNSEEN = [
    *"\x00\x07\x1b\x7f\x85\x9b\xad\u034f\u061c\u115f\u17b4\u180e\u200b\u200c\u200d\u200e\u200f",
    *"\u2028\u2029\u202a\u202d\u202e\u2060\u2066\u2067\u2069\u3164\ud800\ue000\ufe00\ufe0f\ufeff\uffa0",
    *"\U000e0041\U000e0100\U000f0000",
]


@promise("strangers-text-is-seen")
@pytest.mark.parametrize("text", LEGIBLE)
def test_what_is_seen_stays(text: str) -> None:
    assert cleaned(text) == text
    assert visible(text, lines=True).replace("\\r", "\r") == text


@promise("strangers-text-is-seen")
@pytest.mark.parametrize("unseen", UNSEEN)
def test_what_nobody_sees_is_marked_wherever_it_stands(unseen: str) -> None:
    for text in (f"US{unseen}DC", f"US{unseen}é", f"é{unseen * 2}DC"):
        marked = text.replace(unseen, "\ufffd")
        assert cleaned(text).count("\ufffd") >= 1
        assert cleaned(f"US{unseen}DC") == "US\ufffdDC"
        assert one_line(text) == cleaned(text)
        assert unseen * 2 not in cleaned(text)
        assert "\\" in visible(text)
        if unseen >= "\x7f":
            assert cleaned(text) in block("x", text)
            assert len(cleaned(text)) == len(marked)


@promise("strangers-text-is-seen")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("treasury", "treasury"),
        ("<b>a</b>", "<b>a</b>"),
        ("\u202elaer\n a", "\ufffdlaer a"),
        ("w" * 10, "w" * 10),
        ("w" * 11, "w" * 9 + "…"),
    ],
)
def test_a_name_in_a_line_is_bounded_and_turns_nothing(text: str, said: str) -> None:
    assert one_line(text, 10) == said
