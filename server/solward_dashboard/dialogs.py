"""Confirmation dialog and copy button."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui


async def confirmed(question: str, details: Sequence[str], verb: str) -> bool:
    """Whether the user confirms; a dismissed dialog is no."""
    with ui.dialog() as dialog, ui.card().classes("sw-dialog"):
        ui.label(question).classes("sw-card-title")
        for each in details:
            ui.label(each).classes("sw-mono")
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps")
            yes = ui.button(verb, on_click=lambda: dialog.submit(True))
            yes.props('no-caps unelevated data-testid="confirm"')
    try:
        return bool(await dialog)
    finally:
        dialog.delete()


def copy_button(text: str, what: str) -> ui.button:
    """A button that puts a text on the clipboard."""

    def copy() -> None:
        ui.clipboard.write(text)
        ui.notify(f"{what} copied", type="positive")

    button = ui.button(icon="content_copy", color=None, on_click=copy)
    button.props("flat round dense size=sm").props["aria-label"] = f"Copy {what.lower()}"
    return button
