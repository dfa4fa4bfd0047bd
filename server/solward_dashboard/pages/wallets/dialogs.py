"""Dialogs of the wallets' pages: freeze, tags, QR code, new wallet."""

from __future__ import annotations

from nicegui import ui

from solward.client import Wallet
from solward.resources.declare import fields_of
from solward.resources.switches import REASON
from solward.resources.wallets import ChangedWallet, NewWallet
from solward_dashboard.api import api
from solward_dashboard.dialogs import (
    close_button,
    filled,
    optional_text,
    result_of,
    submit_buttons,
    titled,
    written,
)
from solward_dashboard.forms.form import Form
from solward_dashboard.forms.request_form import RequestForm, form_schema
from solward_dashboard.parts import dim, marked


async def freeze_reason(name: str) -> str | None:
    """The reason, empty or not, where the user confirms the freeze; else None."""
    with titled(f"Freeze {name}?") as dialog:
        dim("It makes no new transaction until it is unfrozen.")
        reason = optional_text("Reason", REASON)
        submit_buttons(dialog, "Freeze", lambda: dialog.submit(written(reason)))
    result: str | None = await result_of(dialog)
    return result


async def new_tags(wallet: Wallet) -> list[str] | None:
    """The edited tags; None where the user cancels."""
    known = {"tags": wallet.tags}
    found: dict[str, list[str]] | None = await filled(
        f"Tags of {wallet.name}", lambda: Form(form_schema(fields_of(ChangedWallet)), known), "Save"
    )
    return None if found is None else found.get("tags", [])


async def show_qr(wallet: Wallet) -> None:
    """Show the wallet's address as a QR code."""
    # Imported when the first code is shown.
    import segno

    code = segno.make_qr(wallet.address, error="m")
    with titled(f"Address of {wallet.name}") as dialog:
        image = ui.image(code.svg_data_uri(scale=8, border=3, dark="#000", light="#fff"))
        marked(image.classes("sw-qr"), "qr").props["alt"] = f"QR code of {wallet.address}"
        ui.label(wallet.address).classes("sw-mono")
        close_button(dialog)
    await result_of(dialog)


async def create_wallet() -> None:
    """Create a wallet and open its page."""
    wallet = await filled(
        "New wallet",
        lambda: RequestForm(fields_of(NewWallet)),
        "Create",
        lambda values: api().wallets.create(**values),
        testid="create",
    )
    if wallet is not None:
        ui.navigate.to(f"/wallets/{wallet.id}")
