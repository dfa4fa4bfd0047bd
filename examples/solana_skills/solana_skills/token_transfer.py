"""token_transfer: send tokens to an address, opening its token account where it has none."""

from __future__ import annotations

from typing import Any

from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from spl.token.instructions import create_idempotent_associated_token_account, transfer_checked
from spl.token.models import TransferCheckedParams

from solward import (
    Effects,
    Manifest,
    Mint,
    SkillContext,
    SkillError,
    SkillSpec,
    associated_account_size,
    format_amount,
    from_units,
    hookimpl,
    read_mint,
    to_units,
)


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the token, and rent where the receiver has no account for it."""
    return SkillSpec(
        name="token_transfer",
        description=(
            "Send an amount of a token to an address. Opens the receiver's token account where"
            " there is none, for about 0.002 SOL. Check the balance first."
        ),
        parameters={
            "type": "object",
            "properties": {
                "mint": {
                    "type": "string",
                    "description": "The token's mint address, or a symbol known on this network.",
                    "minLength": 1,
                    "maxLength": 64,
                },
                "to": {
                    "type": "string",
                    "description": "Address of the receiver's wallet, not of a token account.",
                    "minLength": 32,
                    "maxLength": 44,
                },
                "amount": {
                    "type": "number",
                    "description": "Amount in whole tokens.",
                    "exclusiveMinimum": 0,
                },
            },
            "required": ["mint", "to", "amount"],
            "additionalProperties": False,
        },
        effects=Effects.SPEND,
        timeout_s=120.0,
        manifest=Manifest(operations=("transact",)),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Send from the wallet's associated account to the receiver's."""
    address = context.tokens.resolve(params["mint"], "mint")
    mint = await read_mint(context.ledger, address)
    units = to_units(params["amount"], mint.decimals, "amount")
    receiver = _wallet(params["to"])
    owner = Pubkey.from_string(context.wallet.address)
    source, target = _account(owner, mint), _account(receiver, mint)
    await _check_held(context, mint, source, units)

    program, mint_key = Pubkey.from_string(mint.program), Pubkey.from_string(mint.address)
    instructions = [
        transfer_checked(
            TransferCheckedParams(
                program_id=program,
                source=source,
                mint=mint_key,
                dest=target,
                owner=owner,
                amount=units,
                decimals=mint.decimals,
            )
        )
    ]
    rent = 0
    if await context.ledger.account(str(target)) is None:
        rent = await context.ledger.rent_exempt_minimum(associated_account_size(mint))
        opening = create_idempotent_associated_token_account(owner, receiver, mint_key, program)
        instructions.insert(0, opening)

    record = await context.transact(
        instructions=instructions,
        type="token_transfer",
        rent_lamports=rent,
        tokens_out={mint.address: units},
        destinations=[str(receiver), str(target)],
        # Mint, amount and the account that receives are read from the transaction itself.
        details={"to": str(receiver)},
    )
    what = context.tokens.symbol_of(mint.address) or mint.address
    return (
        f"Sent {format_amount(from_units(units, mint.decimals))} {what} to {receiver}."
        f" Status: {record.status}. Signature: {record.signature}."
    )


def _wallet(text: str) -> Pubkey:
    try:
        address = Pubkey.from_string(text)
    except ValueError:
        raise SkillError("bad_address", "to must be a base58 address") from None
    if not address.is_on_curve():
        # Nobody holds the key of such an address: most often it is a token account.
        raise SkillError("bad_address", "to must be the address of a wallet")
    return address


def _account(owner: Pubkey, mint: Mint) -> Pubkey:
    return get_associated_token_address(
        owner, Pubkey.from_string(mint.address), Pubkey.from_string(mint.program)
    )


async def _check_held(context: SkillContext, mint: Mint, source: Pubkey, units: int) -> None:
    holdings = await context.ledger.holdings(context.wallet.address)
    held = sum(each.units for each in holdings if each.account == str(source))
    if held < units:
        raise SkillError(
            "too_little",
            f"amount is more than the {format_amount(from_units(held, mint.decimals))}"
            " the wallet holds",
        )
