"""Instructions made by the public builders, in Agave's jsonParsed shapes."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders import system_program as system
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from spl.token import instructions as token
from spl.token import models
from tests.support.examples import examples
from tests.support.tokens import METADATA_INITIALIZE, TOKEN, TOKEN_2022

from solward_localnet.parsed import Unparsable
from solward_localnet.txjson import parse_instruction

A, B, C, D = (Pubkey(bytes([number]) * 32) for number in (1, 2, 3, 4))
a, b, c, d = map(str, (A, B, C, D))
RENT = "SysvarRent111111111111111111111111111111111"
CLOCK = "SysvarC1ock11111111111111111111111111111111"
CONFIG = "StakeConfig11111111111111111111111111111111"
BLOCKHASHES = "SysvarRecentB1ockHashes11111111111111111111"
STAKE = "Stake11111111111111111111111111111111111111"
MEMO = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"


def parse(instruction: Instruction) -> dict[str, Any]:
    accounts = [str(meta.pubkey) for meta in instruction.accounts]
    return parse_instruction(str(instruction.program_id), accounts, instruction.data)


@pytest.mark.parametrize(
    ("instruction", "kind", "info"),
    [
        (
            system.transfer(system.TransferParams(from_pubkey=A, to_pubkey=B, lamports=7)),
            "transfer",
            {"source": a, "destination": b, "lamports": 7},
        ),
        (
            system.create_account(
                system.CreateAccountParams(
                    from_pubkey=A, to_pubkey=B, lamports=7, space=82, owner=C
                )
            ),
            "createAccount",
            {"source": a, "newAccount": b, "lamports": 7, "space": 82, "owner": c},
        ),
        (
            system.create_account_with_seed(
                system.CreateAccountWithSeedParams(
                    from_pubkey=A, to_pubkey=B, base=A, seed="käse", lamports=7, space=8, owner=C
                )
            ),
            "createAccountWithSeed",
            {
                "source": a,
                "newAccount": b,
                "base": a,
                "seed": "käse",
                "lamports": 7,
                "space": 8,
                "owner": c,
            },
        ),
        (
            system.assign(system.AssignParams(pubkey=A, owner=C)),
            "assign",
            {"account": a, "owner": c},
        ),
        (
            system.allocate(system.AllocateParams(pubkey=A, space=9)),
            "allocate",
            {"account": a, "space": 9},
        ),
        (
            system.advance_nonce_account(
                system.AdvanceNonceAccountParams(nonce_pubkey=A, authorized_pubkey=B)
            ),
            "advanceNonce",
            {"nonceAccount": a, "recentBlockhashesSysvar": BLOCKHASHES, "nonceAuthority": b},
        ),
        (
            system.initialize_nonce_account(
                system.InitializeNonceAccountParams(nonce_pubkey=A, authority=B)
            ),
            "initializeNonce",
            {
                "nonceAccount": a,
                "recentBlockhashesSysvar": BLOCKHASHES,
                "rentSysvar": RENT,
                "nonceAuthority": b,
            },
        ),
        (
            system.withdraw_nonce_account(
                system.WithdrawNonceAccountParams(
                    nonce_pubkey=A, authorized_pubkey=B, to_pubkey=C, lamports=7
                )
            ),
            "withdrawFromNonce",
            {
                "nonceAccount": a,
                "destination": c,
                "recentBlockhashesSysvar": BLOCKHASHES,
                "rentSysvar": RENT,
                "nonceAuthority": b,
                "lamports": 7,
            },
        ),
        (
            system.create_account_allow_prefund(
                system.CreateAccountAllowPrefundParams(
                    new_account=A, payer=B, lamports=7, space=8, owner=C
                )
            ),
            "createAccountAllowPrefund",
            {"newAccount": a, "source": b, "lamports": 7, "space": 8, "owner": c},
        ),
        (
            system.create_account_allow_prefund(
                system.CreateAccountAllowPrefundParams(
                    new_account=A, payer=None, lamports=0, space=8, owner=C
                )
            ),
            "createAccountAllowPrefund",
            {"newAccount": a, "space": 8, "owner": c},
        ),
    ],
)
def test_a_system_instruction(instruction: Instruction, kind: str, info: dict[str, Any]) -> None:
    assert parse(instruction) == {
        "program": "system",
        "programId": "1" * 32,
        "parsed": {"type": kind, "info": info},
    }


UI_AMOUNT = {"amount": "1500", "decimals": 3, "uiAmount": 1.5, "uiAmountString": "1.5"}


@pytest.mark.parametrize(
    ("instruction", "kind", "info"),
    [
        (
            token.initialize_mint(
                models.InitializeMintParams(
                    decimals=2, program_id=TOKEN, mint=A, mint_authority=B, freeze_authority=C
                )
            ),
            "initializeMint",
            {
                "mint": a,
                "decimals": 2,
                "mintAuthority": b,
                "freezeAuthority": c,
                "rentSysvar": RENT,
            },
        ),
        (
            token.initialize_mint2(
                models.InitializeMint2Params(
                    decimals=2, program_id=TOKEN_2022, mint=A, mint_authority=B
                )
            ),
            "initializeMint2",
            {"mint": a, "decimals": 2, "mintAuthority": b},
        ),
        (
            token.initialize_account3(
                models.InitializeAccount3Params(program_id=TOKEN, account=A, mint=B, owner=C)
            ),
            "initializeAccount3",
            {"account": a, "mint": b, "owner": c},
        ),
        (
            token.initialize_multisig(
                models.InitializeMultisigParams(program_id=TOKEN, multisig=A, signers=[B, C], m=2)
            ),
            "initializeMultisig",
            {"multisig": a, "rentSysvar": RENT, "signers": [b, c], "m": 2},
        ),
        (
            token.transfer(
                models.TransferParams(program_id=TOKEN, source=A, dest=B, owner=C, amount=1500)
            ),
            "transfer",
            {"source": a, "destination": b, "authority": c, "amount": "1500"},
        ),
        (
            token.transfer(
                models.TransferParams(
                    program_id=TOKEN, source=A, dest=B, owner=C, amount=1, signers=[D]
                )
            ),
            "transfer",
            {
                "source": a,
                "destination": b,
                "multisigAuthority": c,
                "signers": [d],
                "amount": "1",
            },
        ),
        (
            token.transfer_checked(
                models.TransferCheckedParams(
                    program_id=TOKEN, source=A, mint=B, dest=C, owner=D, amount=1500, decimals=3
                )
            ),
            "transferChecked",
            {
                "source": a,
                "mint": b,
                "destination": c,
                "authority": d,
                "tokenAmount": UI_AMOUNT,
            },
        ),
        (
            token.approve(
                models.ApproveParams(program_id=TOKEN, source=A, delegate=B, owner=C, amount=5)
            ),
            "approve",
            {"source": a, "delegate": b, "owner": c, "amount": "5"},
        ),
        (
            token.revoke(models.RevokeParams(program_id=TOKEN, account=A, owner=B)),
            "revoke",
            {"source": a, "owner": b},
        ),
        (
            token.set_authority(
                models.SetAuthorityParams(
                    program_id=TOKEN,
                    account=A,
                    authority=models.AuthorityType.MINT_TOKENS,
                    current_authority=B,
                )
            ),
            "setAuthority",
            {"mint": a, "authorityType": "mintTokens", "newAuthority": None, "authority": b},
        ),
        (
            token.set_authority(
                models.SetAuthorityParams(
                    program_id=TOKEN,
                    account=A,
                    authority=models.AuthorityType.ACCOUNT_OWNER,
                    current_authority=B,
                    new_authority=C,
                )
            ),
            "setAuthority",
            {"account": a, "authorityType": "accountOwner", "newAuthority": c, "authority": b},
        ),
        (
            token.mint_to_checked(
                models.MintToCheckedParams(
                    program_id=TOKEN, mint=A, dest=B, mint_authority=C, amount=1500, decimals=3
                )
            ),
            "mintToChecked",
            {"mint": a, "account": b, "mintAuthority": c, "tokenAmount": UI_AMOUNT},
        ),
        (
            token.burn(models.BurnParams(program_id=TOKEN, account=A, mint=B, owner=C, amount=9)),
            "burn",
            {"account": a, "mint": b, "authority": c, "amount": "9"},
        ),
        (
            token.close_account(
                models.CloseAccountParams(program_id=TOKEN, account=A, dest=B, owner=C)
            ),
            "closeAccount",
            {"account": a, "destination": b, "owner": c},
        ),
        (
            token.freeze_account(
                models.FreezeAccountParams(program_id=TOKEN, account=A, mint=B, authority=C)
            ),
            "freezeAccount",
            {"account": a, "mint": b, "freezeAuthority": c},
        ),
        (
            token.sync_native(models.SyncNativeParams(program_id=TOKEN, account=A)),
            "syncNative",
            {"account": a},
        ),
        (
            Instruction(TOKEN, b"\x15\x07\x00", [AccountMeta(A, False, False)]),
            "getAccountDataSize",
            {"mint": a, "extensionTypes": ["immutableOwner"]},
        ),
        (
            Instruction(
                TOKEN_2022, b"\x27\x00" + bytes(A) + bytes(B), [AccountMeta(C, False, True)]
            ),
            "initializeMetadataPointer",
            {"mint": c, "authority": a, "metadataAddress": b},
        ),
        (
            Instruction(TOKEN_2022, b"\x19\x01" + bytes(B), [AccountMeta(A, False, True)]),
            "initializeMintCloseAuthority",
            {"mint": a, "newAuthority": b},
        ),
        (
            Instruction(
                TOKEN_2022,
                METADATA_INITIALIZE + b"\x01\0\0\0N\x01\0\0\0S\0\0\0\0",
                [AccountMeta(key, False, False) for key in (A, B, C, D)],
            ),
            "initializeTokenMetadata",
            {
                "metadata": a,
                "updateAuthority": b,
                "mint": c,
                "mintAuthority": d,
                "name": "N",
                "symbol": "S",
                "uri": "",
            },
        ),
    ],
)
def test_a_token_instruction(instruction: Instruction, kind: str, info: dict[str, Any]) -> None:
    assert parse(instruction) == {
        "program": "spl-token",
        "programId": str(instruction.program_id),
        "parsed": {"type": kind, "info": info},
    }


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (token.create_associated_token_account, "create"),
        (token.create_idempotent_associated_token_account, "createIdempotent"),
    ],
)
def test_an_associated_token_instruction(build: Any, kind: str) -> None:
    shown = parse(build(A, B, C))
    assert shown["program"] == "spl-associated-token-account"
    assert shown["parsed"] == {
        "type": kind,
        "info": {
            "source": a,
            "account": str(token.get_associated_token_address(B, C)),
            "wallet": b,
            "mint": c,
            "systemProgram": "1" * 32,
            "tokenProgram": str(TOKEN),
        },
    }


def test_a_memo_is_its_text() -> None:
    assert parse_instruction(MEMO, [], "grüße".encode()) == {
        "program": "spl-memo",
        "programId": MEMO,
        "parsed": "grüße",
    }


@pytest.mark.parametrize(
    ("program", "accounts", "data"),
    [
        (d, [], b""),
        ("1" * 32, [a, b], b""),
        ("1" * 32, [a, b], struct.pack("<I", 99)),
        ("1" * 32, [a], struct.pack("<IQ", 2, 5)),
        ("1" * 32, [a, b], struct.pack("<II", 2, 5)),
        (str(TOKEN), [a, b, c], b""),
        (str(TOKEN), [a, b, c], b"\x63"),
        (str(TOKEN), [a, b], b"\x03" + bytes(8)),
        (str(TOKEN), [a, b], b"\x06\x63\x00"),
        (str(TOKEN), [a, b], b"\x06\x00\x02"),
        (str(TOKEN), [a], b"\x13\x02"),
        (str(TOKEN), [a], b"\x15\xff\xff"),
        (str(TOKEN), [a], b"\x18\xff"),
        (str(TOKEN_2022), [a], b"\x27\x09"),
        (STAKE, [a, b, c], struct.pack("<I", 3)),
        (MEMO, [], b"\xff"),
    ],
)
def test_what_is_not_an_instruction_of_its_program_is_unparsable(
    program: str, accounts: list[str], data: bytes
) -> None:
    with pytest.raises(Unparsable):
        parse_instruction(program, accounts, data)


PROGRAMS = ("1" * 32, str(TOKEN), str(TOKEN_2022), STAKE, MEMO)
HEADS = st.integers(0, 40).flatmap(
    lambda kind: st.sampled_from((bytes([kind]), struct.pack("<I", kind)))
)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(PROGRAMS),
    st.lists(st.sampled_from((a, b, c, CLOCK, RENT, CONFIG)), max_size=8),
    st.builds(bytes.__add__, HEADS, st.binary(max_size=150)),
)
def test_any_instruction_is_parsed_into_json_or_refused(
    program: str, accounts: list[str], data: bytes
) -> None:
    try:
        shown = parse_instruction(program, accounts, data)
    except Unparsable:
        return
    json.dumps(shown, allow_nan=False)
