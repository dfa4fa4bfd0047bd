"""Dialogs with a question, a form, a text to write or to read, or a secret shown only once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

from nicegui import ui

from solward.resources.fields import Field
from solward.types.errors import SolwardError
from solward_dashboard import parts as sw
from solward_dashboard.forms import FormError

T = TypeVar("T")


class DialogForm(Protocol):
    """The form of a dialog, or several forms that act as one."""

    def values(self) -> Any:
        """Return the form's values; if one is invalid, show its error and raise `FormError`."""

    def show_error(self, error: str) -> None:
        """Show an error of the whole form."""


@contextmanager
def titled_dialog(
    title: str, *, wide: bool = False, beside: Callable[[], object] | None = None
) -> Iterator[ui.dialog]:
    """Yield a dialog that is named by its heading; elements built inside are its content.

    Args:
        beside: builds elements beside the title; a button that closes the dialog follows them.
    """
    with ui.dialog() as dialog, ui.card().classes("sw-dialog" + " sw-dialog-wide" * wide):
        with sw.row():
            name = sw.heading(title).classes("sw-text")
            if beside is not None:
                beside()
                close = ui.button(icon="close", color=None, on_click=dialog.close)
                close.props('flat round dense aria-label="Close"')
        dialog.props["aria-labelledby"] = name.html_id
        yield dialog


async def confirmed(question: str, details: Sequence[str], verb: str) -> bool:
    """Return whether the user confirms; dismissing the dialog means no."""

    def build() -> None:
        for each in details:
            ui.label(each).classes("sw-mono")

    return await ask_note(question, build, verb) is not None


async def ask_note(
    question: str,
    build: Callable[[], object],
    verb: str,
    note: Field | None = None,
    *,
    wide: bool = False,
    testid: str = "",
) -> str | None:
    """Return a person's note, which may be empty; None if the person does not confirm.

    Args:
        build: builds the text that they decide on.
        note: the declared field of the note; without it they can write none.
        testid: test id of the note's field.
    """
    field: ui.input | None = None
    with titled_dialog(question, wide=wide) as dialog:
        build()
        if note is not None:
            field = ui.input(f"{note.label} (optional)").classes("sw-field")
            field.props(f"outlined dense maxlength={note.schema()['maxLength']}")
            sw.marked(field, testid).props["hint"] = note.text
        submit_buttons(
            dialog, verb, lambda: dialog.submit(str(field.value or "").strip() if field else "")
        )
    written: str | None = await result_of(dialog)
    return written


async def _return_unchanged(values: Any) -> Any:
    return values


async def ask_form(
    title: str,
    form: Callable[[], DialogForm],
    verb: str,
    send: Callable[[Any], Awaitable[T]] = _return_unchanged,
    *,
    testid: str = "confirm",
) -> T | None:
    """Return the service's answer to the values of a form; None if the user cancels.

    Args:
        form: builds the form.
        send: sends the values; without it the values are returned.
        testid: test id of the button with `verb`.
    """

    async def submit() -> None:
        try:
            values = made.values()
        except FormError:
            return
        # The answer may be shown only once, so the dialog cannot be closed meanwhile.
        dialog.props("persistent")
        try:
            with sw.disabled(*buttons):
                dialog.submit(await send(values))
        except SolwardError as error:
            made.show_error(str(error))
        finally:
            dialog.props(remove="persistent")

    with titled_dialog(title) as dialog:
        made = form()
        buttons = submit_buttons(dialog, verb, submit, testid)
    found: T | None = await result_of(dialog)
    return found


def submit_buttons(
    dialog: ui.dialog, verb: str, submit: Callable[[], object], testid: str = "confirm"
) -> tuple[ui.button, ui.button]:
    """Return the Cancel button, which closes the dialog with None, and the submit button."""
    with sw.row("sw-end"):
        cancel = ui.button("Cancel", on_click=lambda: dialog.submit(None)).props("flat no-caps")
        button = ui.button(verb, on_click=submit).props(sw.PRIMARY)
    return cancel, sw.marked(button, testid)


@asynccontextmanager
async def show_dialog(
    title: str, *, wide: bool = False, beside: Callable[[], object] | None = None
) -> AsyncIterator[None]:
    """Show a dialog like `titled_dialog` without a question; the block ends when it is closed.

    Args:
        beside: see `titled_dialog`; without it the button that closes the dialog is below.
    """
    with titled_dialog(title, wide=wide, beside=beside) as dialog:
        yield
        if beside is None:
            with sw.row("sw-end"):
                ui.button("Close", on_click=dialog.close).props("flat no-caps")
    await result_of(dialog)


async def show_secret(title: str, secret: str, what: str) -> None:
    """Show a secret until the user says that it is copied, then delete it from the page.

    Args:
        what: the secret's name on the button that copies it.
    """
    with titled_dialog(title) as dialog:
        dialog.props("persistent")
        ui.label("Copy it now: the secret is shown once and stored nowhere.").classes("sw-text")
        with sw.row():
            sw.marked(ui.label(secret).classes("sw-mono"), what.lower())
            sw.copy_button(secret, what)
        with sw.row("sw-end"):
            ui.button("I copied it", on_click=dialog.close).props(sw.PRIMARY)
    await result_of(dialog)


async def result_of(dialog: ui.dialog) -> Any:
    """Return the value that an open dialog is closed with, and delete the dialog."""
    try:
        return await dialog
    finally:
        # NiceGUI deletes the open dialogs of a page that was left.
        if not dialog.is_deleted:
            dialog.delete()
