"""Launching a token: a Token-2022 mint that holds its own name and symbol, in one transaction.

Layouts: spl-token-2022-interface (MetadataPointer, instruction 39.0) and
spl-token-metadata-interface (Initialize, told by its eight-byte discriminator; TokenMetadata).
"""

from __future__ import annotations

import secrets
from decimal import Decimal

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountWithSeedParams, create_account_with_seed

from solward.operations.declared.tokens import LAUNCH_TOKEN
from solward.operations.plans import plans
from solward.operations.tokens import associated_account, mint_to
from solward.solana.instructions import (
    TOKEN_METADATA_INITIALIZE,
    TOKEN_METADATA_POINTER_INITIALIZE,
)
from solward.solana.programs import TOKEN_2022_PROGRAM
from solward.solana.token_instructions import create_associated, initialize_mint
from solward.solana.tokens import TOKEN_METADATA_FIXED_BYTES, Mint, associated_account_size
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger
from solward.types.money import from_units, to_units
from solward.types.record import TransactionType
from solward.vault.money.request import Draft

# A mint padded to an account's size, the account type, and the pointer with its header.
_MINT_WITH_POINTER_BYTES = 166 + 4 + 64
# The extensions of a launched mint: metadata pointer and metadata.
_EXTENSIONS = (18, 19)
# A seed has at most 32 bytes: 128 random bits as hex.
_SEED_BYTES = 16


@plans(LAUNCH_TOKEN)
async def plan_launch_token(
    wallet: str,
    *,
    ledger: ReadLedger,
    name: str,
    symbol: str,
    decimals: int,
    initial_supply: Decimal | int,
) -> Draft:
    """Create a token whose mint and freeze authority is the wallet, and mint its first supply.

    The mint's address is derived from the wallet and a random seed, so that the wallet's
    signature alone creates it.

    Raises:
        InvalidRequest: the supply is none.
        LedgerError: the ledger did not answer.
    """
    units = to_units(initial_supply, decimals, "initialSupply")
    owner, program = Pubkey.from_string(wallet), Pubkey.from_string(TOKEN_2022_PROGRAM)
    seed = secrets.token_hex(_SEED_BYTES)
    address = Pubkey.create_with_seed(owner, seed, program)
    mint = Mint(
        address=str(address),
        program=TOKEN_2022_PROGRAM,
        decimals=decimals,
        supply=0,
        mint_authority=wallet,
        freeze_authority=wallet,
        name=name,
        symbol=symbol,
        extensions=_EXTENSIONS,
    )
    account = associated_account(owner, mint)
    texts = _strings(name, symbol, "")
    # The metadata is written by growing the account, whose rent must be there before.
    mint_rent = await ledger.rent_exempt_minimum(
        _MINT_WITH_POINTER_BYTES + TOKEN_METADATA_FIXED_BYTES + len(texts)
    )
    account_rent = await ledger.rent_exempt_minimum(associated_account_size(mint))
    intent = Intent(
        type=TransactionType.TOKEN_LAUNCH,
        wallet=wallet,
        rent_lamports=mint_rent + account_rent,
        tokens_in={mint.address: units},
        details={
            "mint": mint.address,
            "name": name,
            "symbol": symbol,
            "decimals": decimals,
            "supply": from_units(units, decimals),
            "account": str(account),
        },
    )
    return Draft(
        intent,
        (
            _create(owner, address, seed, mint_rent),
            Instruction(
                program,
                TOKEN_METADATA_POINTER_INITIALIZE + bytes(owner) + bytes(address),
                [AccountMeta(address, False, True)],
            ),
            initialize_mint(program, address, decimals, owner, owner),
            _describe(owner, address, texts),
            create_associated(owner, owner, address, program),
            mint_to(owner, mint, account, units),
        ),
    )


def _create(owner: Pubkey, mint: Pubkey, seed: str, lamports: int) -> Instruction:
    return create_account_with_seed(
        CreateAccountWithSeedParams(
            from_pubkey=owner,
            to_pubkey=mint,
            base=owner,
            seed=seed,
            lamports=lamports,
            space=_MINT_WITH_POINTER_BYTES,
            owner=Pubkey.from_string(TOKEN_2022_PROGRAM),
        )
    )


def _describe(owner: Pubkey, mint: Pubkey, texts: bytes) -> Instruction:
    """Write name and symbol into the mint itself; the wallet may change them later."""
    accounts = [
        AccountMeta(mint, False, True),
        AccountMeta(owner, False, False),
        AccountMeta(mint, False, False),
        AccountMeta(owner, True, False),
    ]
    return Instruction(
        Pubkey.from_string(TOKEN_2022_PROGRAM), TOKEN_METADATA_INITIALIZE + texts, accounts
    )


def _strings(*texts: str) -> bytes:
    encoded = [text.encode() for text in texts]
    return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)
