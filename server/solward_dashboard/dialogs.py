"""Dialogs, notices that pass over a page, and small elements that several pages share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from solward.resources.switches import REASON
from solward_dashboard.wording import local_times


def heading(text: str = "", level: int = 2) -> ui.label:
    """The heading of a card or a dialog."""
    return ui.label(text).classes("sw-card-title").props(f"role=heading aria-level={level}")


@contextmanager
def titled(title: str, *, wide: bool = False) -> Iterator[ui.dialog]:
    """A dialog that is named by its heading; elements built inside are its content."""
    with ui.dialog() as dialog, ui.card().classes("sw-dialog" + " sw-dialog-wide" * wide):
        name = heading(title).classes("sw-text")
        dialog.props["aria-labelledby"] = name.html_id
        yield dialog


async def confirmed(question: str, details: Sequence[str], verb: str) -> bool:
    """Whether the user confirms; a dismissed dialog is no."""
    with titled(question) as dialog:
        for each in details:
            ui.label(each).classes("sw-mono")
        submit_buttons(dialog, verb, lambda: dialog.submit(True))
    return bool(await result_of(dialog))


def submit_buttons(dialog: ui.dialog, verb: str, submit: Callable[[], None]) -> None:
    """A row of Cancel, which closes the dialog with None, and a button that submits it."""
    with ui.element("div").classes("sw-row sw-end"):
        ui.button("Cancel", on_click=lambda: dialog.submit(None)).props("flat no-caps")
        button = ui.button(verb, on_click=submit)
        button.props('no-caps unelevated data-testid="confirm"')


def reason_input() -> ui.input:
    """A field for the reason of a freeze."""
    reason = ui.input("Reason (optional)").classes("sw-field")
    reason.props["hint"] = REASON.text
    return reason.props(f'outlined dense maxlength={REASON.most} data-testid="freeze-reason"')


async def shown_once(title: str, secret: str, what: str) -> None:
    """A secret, until the user says that it is copied: deleting the dialog takes it off the page.

    Args:
        what: its name on the button that copies it.
    """
    with titled(title) as dialog:
        dialog.props("persistent")
        ui.label("Copy it now: it is shown this once and kept nowhere.").classes("sw-text")
        with ui.element("div").classes("sw-row"):
            shown = ui.label(secret).classes("sw-mono")
            shown.props(f'data-testid="{what.lower()}"')
            copy_button(secret, what)
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("I have it", on_click=dialog.close).props("no-caps unelevated")
    await result_of(dialog)


async def result_of(dialog: ui.dialog) -> Any:
    """What an opened dialog is closed with; the dialog is deleted."""
    try:
        return await dialog
    finally:
        dialog.delete()


def fact(name: str, text: str, classes: str = "sw-text") -> None:
    """A name and its text in a description list."""
    with ui.element("div"):
        with ui.element("dt"):
            ui.label(name)
        with ui.element("dd"):
            ui.label(text).classes(classes)


def copy_button(text: str, what: str) -> ui.button:
    """A button that puts a text on the clipboard."""

    def copy() -> None:
        ui.clipboard.write(text)
        ui.notify(f"{what} copied", type="positive")

    button = ui.button(icon="content_copy", color=None, on_click=copy)
    button.props("flat round dense size=sm").props["aria-label"] = f"Copy {what.lower()}"
    return button


def notify_error(error: Exception | str) -> None:
    """What the service refused and why, as a page shows its texts."""
    ui.notify(local_times(str(error)), type="negative", multi_line=True)
