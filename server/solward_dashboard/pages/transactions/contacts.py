"""The dialog of contacts: what recipients are called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from solward.client import ClientError, Contact
from solward_dashboard.api import api
from solward_dashboard.dialogs import result_of, titled

_ABOUT = (
    "What recipients are called in tables and filters. A contact allows nothing: who may be paid "
    "is said by grants, and @names are those of the address book on the Policy page."
)


async def edit_contacts(contacts: tuple[Contact, ...]) -> None:
    """Show the contacts, name and forget some; returns when the dialog is closed."""
    with titled("Contacts", wide=True) as dialog:
        ui.label(_ABOUT).classes("sw-dim sw-text")
        rows = ui.element("div").classes("sw-points").props('data-testid="contacts"')
        error = ui.label().classes("sw-error").props("role=alert")
        with ui.element("div").classes("sw-row sw-filters"):
            name = ui.input("Name").props("outlined dense maxlength=64")
            address = ui.input("Address").props("outlined dense maxlength=44")
            add = ui.button("Add").props('no-caps unelevated data-testid="add-contact"')
            add.classes("sw-needs-policy")
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")

    def show(found: tuple[Contact, ...]) -> None:
        rows.clear()
        with rows:
            for each in found:
                _row(each, remove)
            if not found:
                ui.label("No recipient has a name yet.").classes("sw-dim")

    async def changed() -> None:
        show(await api().contacts.known())

    async def save() -> None:
        error.set_text("")
        try:
            await api().contacts.put((address.value or "").strip(), (name.value or "").strip())
            await changed()
        except ClientError as refused:
            error.set_text(str(refused))
            return
        name.set_value("")
        address.set_value("")

    async def remove(contact: Contact) -> None:
        error.set_text("")
        try:
            await api().contacts.remove(contact.address)
            await changed()
        except ClientError as refused:
            error.set_text(str(refused))

    add.on_click(save)
    show(contacts)
    await result_of(dialog)


def _row(contact: Contact, remove: Callable[[Contact], Awaitable[None]]) -> None:
    with ui.element("div").classes("sw-line"):
        with ui.element("div"):
            ui.label(contact.name).classes("sw-text")
            ui.label(contact.address).classes("sw-mono sw-dim")
        if contact.created_at is not None:
            button = ui.button(icon="delete", color=None, on_click=lambda: remove(contact))
            button.props("flat round dense").classes("sw-needs-policy")
            button.props["aria-label"] = f"Remove the name {contact.name}"
