"""A preview is confirmed only where it is allowed, fresh, and of what would be sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from nicegui import Client, ui
from nicegui.page import page
from tests.promises import promise

from solward.client import Trial, Unreachable
from solward_dashboard import leaving
from solward_dashboard.leaving import FRESH_S, Preview

ALLOWED = {"dryRun": True, "allowed": True, "guardrailsApplied": []}
REFUSED = ALLOWED | {"allowed": False, "rule": "max_per_tx", "reason": "too much"}


class Desk:
    """A preview on a page that nobody looks at, and what it is answered."""

    def __init__(self) -> None:
        self.answers: list[Any] = [ALLOWED]
        self.asked = 0
        self.is_current = True
        self.place = ui.element("div")
        self.confirm, self.again = ui.button(), ui.button()
        self.preview = Preview(
            "w1", self.trial, lambda: self.is_current, self.place, self.confirm, self.again
        )

    async def trial(self) -> Trial:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Trial.of(answer)

    @property
    def text(self) -> str:
        return "\n".join(
            each.text for each in self.place.descendants() if isinstance(each, ui.label)
        )

    @property
    def offers(self) -> tuple[bool, bool]:
        """Whether it can be confirmed, and asked for again."""
        return self.confirm.visible, self.again.visible


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    async def nothing(_wallet: str) -> Any:
        return type("Around", (), {"tokens": None})()

    monkeypatch.setattr(leaving, "trial_context", nothing)
    with Client(page("/preview")):
        yield Desk()


async def test_what_is_allowed_is_confirmed(desk: Desk) -> None:
    await desk.preview.ask()
    assert desk.offers == (True, False)
    assert await desk.preview.is_confirmable()


async def test_before_an_answer_nothing_is_confirmed(desk: Desk) -> None:
    assert not await desk.preview.is_confirmable()
    assert desk.asked == 0


@promise("refused-preview-cannot-confirm")
async def test_what_is_refused_is_not_confirmed(desk: Desk) -> None:
    desk.answers = [REFUSED]
    await desk.preview.ask()
    assert desk.offers == (False, False)
    assert "Refused by max_per_tx" in desk.text
    assert not await desk.preview.is_confirmable()


@promise("refused-preview-cannot-confirm")
async def test_where_nobody_answers_it_is_asked_again(desk: Desk) -> None:
    desk.answers = [Unreachable("no answer"), ALLOWED]
    await desk.preview.ask()
    assert desk.text == "no answer. Nothing was sent."
    assert desk.offers == (False, True)
    assert not await desk.preview.is_confirmable()
    await desk.preview.ask()
    assert desk.offers == (True, False)


async def test_a_changed_form_ends_it(desk: Desk) -> None:
    await desk.preview.ask()
    desk.is_current = False
    assert not await desk.preview.is_confirmable()
    assert "The form has changed" in desk.text
    assert desk.offers == (False, False)
    # Changed back, it is still another look.
    desk.is_current = True
    assert not await desk.preview.is_confirmable()


@promise("old-preview-asked-again")
async def test_an_old_answer_is_asked_for_once_more_and_looked_at(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(leaving.time, "monotonic", lambda: now[0])
    desk.answers = [ALLOWED, ALLOWED, REFUSED]
    await desk.preview.ask()
    now[0] += FRESH_S + 1
    assert not await desk.preview.is_confirmable()
    assert (desk.asked, desk.offers) == (2, (True, False))
    assert "The preview was too old" in desk.text
    now[0] += FRESH_S
    assert await desk.preview.is_confirmable()
    now[0] += FRESH_S
    assert not await desk.preview.is_confirmable()
    assert desk.offers == (False, False)
