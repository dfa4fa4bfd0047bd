"""Dialogs of the wallets' pages: freeze, tags, QR code, new wallet."""

from __future__ import annotations

from contextlib import suppress

from nicegui import ui

from solward.client import Wallet
from solward.resources.declare import fields_of
from solward.resources.wallets import ChangedWallet, NewWallet
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import notify_error, reason_input, result_of, submit_buttons, titled
from solward_dashboard.forms.form import FormError, schema_form
from solward_dashboard.forms.request_form import RequestForm, form_schema


async def freeze_reason(name: str) -> str | None:
    """The reason, empty or not, where the user confirms the freeze; else None."""
    with titled(f"Freeze {name}?") as dialog:
        ui.label("It makes no new transaction until it is unfrozen.").classes("sw-dim")
        reason = reason_input()
        submit_buttons(dialog, "Freeze", lambda: dialog.submit(reason.value or ""))
    result = await result_of(dialog)
    return None if result is None else str(result).strip()


async def new_tags(wallet: Wallet) -> list[str] | None:
    """The edited tags; None where the user cancels."""
    with titled(f"Tags of {wallet.name}") as dialog:
        form = schema_form(form_schema(fields_of(ChangedWallet)), {"tags": wallet.tags})

        def save() -> None:
            with suppress(FormError):
                dialog.submit(form.values().get("tags", []))

        submit_buttons(dialog, "Save", save)
    result = await result_of(dialog)
    return None if result is None else [str(each) for each in result]


def show_qr(wallet: Wallet) -> None:
    """Show the wallet's address as a QR code."""
    # Imported when the first code is shown.
    import segno

    code = segno.make_qr(wallet.address, error="m")
    with titled(f"Address of {wallet.name}") as dialog:
        image = ui.image(code.svg_data_uri(scale=8, border=3, dark="#000", light="#fff"))
        image.classes("sw-qr").props["alt"] = f"QR code of {wallet.address}"
        image.props["data-testid"] = "qr"
        ui.label(wallet.address).classes("sw-mono")
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
    dialog.on("hide", dialog.delete)
    dialog.open()


class CreateDialog:
    """Creates a wallet and opens its page."""

    def __init__(self) -> None:
        with titled("New wallet") as self._dialog:
            self._form = RequestForm(fields_of(NewWallet))
            with ui.element("div").classes("sw-row sw-end"):
                ui.button("Cancel", on_click=self._dialog.close).props("flat no-caps")
                self._button = ui.button("Create", on_click=self._create)
                self._button.props('no-caps unelevated data-testid="create"')

    def open(self) -> None:
        """Open the empty form."""
        self._form.clear()
        self._dialog.open()

    async def _create(self) -> None:
        try:
            values = self._form.values()
        except FormError:
            return
        self._button.disable()
        try:
            wallet = await api().wallets.create(**values)
        except SolwardError as error:
            self._form.show_error(str(error))
            notify_error(error)
            return
        finally:
            self._button.enable()
        self._dialog.close()
        ui.navigate.to(f"/wallets/{wallet.id}")
