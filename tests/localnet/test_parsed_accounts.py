"""Accounts that the real programs wrote, in Agave's jsonParsed shapes."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.account import Account
from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    CreateAccountParams,
    InitializeNonceAccountParams,
    TransferParams,
    create_account,
    initialize_nonce_account,
    transfer,
)
from solders.sysvar import CLOCK, EPOCH_SCHEDULE, RENT, SLOT_HASHES, STAKE_HISTORY
from spl.token.instructions import (
    approve,
    create_associated_token_account,
    get_associated_token_address,
    sync_native,
)
from spl.token.models import ApproveParams, SyncNativeParams
from tests.support.examples import examples
from tests.support.tokens import TOKEN, TOKEN_2022, Bank, named_mint_instructions

from solward_localnet.encoding import encode_account, parse_account
from solward_localnet.parsed import Unparsable, mint_decimals, ui_token_amount

NATIVE_MINT = Pubkey.from_string("So11111111111111111111111111111111111111112")
STAKE = Pubkey.from_string("Stake11111111111111111111111111111111111111")
VOTE = Pubkey.from_string("Vote111111111111111111111111111111111111111")
LOOKUP_TABLES = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")


@pytest.fixture
def bank() -> Bank:
    return Bank()


def parsed(bank: Bank, address: Pubkey) -> Any:
    account = bank.svm.get_account(address)
    assert account is not None
    return encode_account(account, "jsonParsed", None, address, bank.svm.get_account)["data"]


def test_a_token_account_shows_its_amount_with_the_decimals_of_its_mint(bank: Bank) -> None:
    owner, mint = Pubkey.new_unique(), bank.mint(decimals=6)
    address = bank.token_account(owner, mint, 1_234_500)
    assert parsed(bank, address) == {
        "program": "spl-token",
        "parsed": {
            "type": "account",
            "info": {
                "mint": str(mint),
                "owner": str(owner),
                "tokenAmount": {
                    "amount": "1234500",
                    "decimals": 6,
                    "uiAmount": 1.2345,
                    "uiAmountString": "1.2345",
                },
                "state": "initialized",
                "isNative": False,
            },
        },
        "space": 165,
    }


def test_a_delegate_is_shown_with_what_it_may_spend(bank: Bank) -> None:
    delegate, mint = Pubkey.new_unique(), bank.mint(decimals=2)
    address = bank.token_account(bank.payer.pubkey(), mint, 500)
    bank.run(
        [
            approve(
                ApproveParams(
                    program_id=TOKEN,
                    source=address,
                    delegate=delegate,
                    owner=bank.payer.pubkey(),
                    amount=120,
                )
            )
        ]
    )
    info = parsed(bank, address)["parsed"]["info"]
    assert info["delegate"] == str(delegate)
    assert info["delegatedAmount"]["uiAmountString"] == "1.2"


def test_wrapped_sol_shows_its_rent_reserve_even_where_the_mint_is_unknown(bank: Bank) -> None:
    payer = bank.payer.pubkey()
    mint_data = struct.pack("<I32sQBBI32s", 0, bytes(32), 0, 9, 1, 0, bytes(32))
    bank.svm.set_account(NATIVE_MINT, Account(10_000_000, mint_data, TOKEN))
    address = get_associated_token_address(payer, NATIVE_MINT)
    bank.run(
        [
            create_associated_token_account(payer, payer, NATIVE_MINT),
            transfer(TransferParams(from_pubkey=payer, to_pubkey=address, lamports=7_000_000_000)),
            sync_native(SyncNativeParams(program_id=TOKEN, account=address)),
        ]
    )
    account = bank.svm.get_account(address)
    assert account is not None
    info = parse_account(address, account, lambda _: None)["parsed"]["info"]
    assert info["isNative"] is True
    assert info["tokenAmount"]["uiAmount"] == 7.0
    assert info["rentExemptReserve"]["amount"] == "2039280"


def test_a_token_account_without_its_mint_falls_back_to_base64(bank: Bank) -> None:
    address = bank.token_account(Pubkey.new_unique(), bank.mint(), 5)
    account = bank.svm.get_account(address)
    assert account is not None
    encoded = encode_account(account, "jsonParsed", None, address, lambda _: None)
    assert encoded["data"][1] == "base64"


def test_a_mint_shows_supply_and_authorities(bank: Bank) -> None:
    mint = bank.mint(decimals=3)
    bank.token_account(Pubkey.new_unique(), mint, 42)
    payer = str(bank.payer.pubkey())
    assert parsed(bank, mint) == {
        "program": "spl-token",
        "parsed": {
            "type": "mint",
            "info": {
                "mintAuthority": payer,
                "supply": "42",
                "decimals": 3,
                "isInitialized": True,
                "freezeAuthority": payer,
            },
        },
        "space": 82,
    }


def test_a_token_2022_mint_lists_its_metadata_and_its_accounts_their_extensions(
    bank: Bank,
) -> None:
    mint, payer = Keypair(), bank.payer.pubkey()
    instructions = named_mint_instructions(payer, mint.pubkey(), 10_000_000, "Café", "CAF")
    bank.run(instructions, mint)
    shown = parsed(bank, mint.pubkey())
    assert shown["program"] == "spl-token-2022"
    assert shown["parsed"]["info"]["extensions"] == [
        {
            "extension": "metadataPointer",
            "state": {"authority": str(payer), "metadataAddress": str(mint.pubkey())},
        },
        {
            "extension": "tokenMetadata",
            "state": {
                "updateAuthority": str(payer),
                "mint": str(mint.pubkey()),
                "name": "Café",
                "symbol": "CAF",
                "uri": "",
                "additionalMetadata": [],
            },
        },
    ]
    address = bank.token_account(payer, mint.pubkey(), 5, program=TOKEN_2022)
    info = parsed(bank, address)["parsed"]["info"]
    assert info["extensions"] == [{"extension": "immutableOwner"}]
    assert info["tokenAmount"]["decimals"] == 9


def extended_mint(kind: int, state: bytes) -> Account:
    base = struct.pack("<I32sQBBI32s", 0, bytes(32), 0, 0, 1, 0, bytes(32))
    data = base.ljust(165, b"\0") + b"\x01" + struct.pack("<HH", kind, len(state)) + state
    return Account(1, data, TOKEN_2022)


KEY, OTHER = Pubkey.new_unique(), Pubkey.new_unique()


@pytest.mark.parametrize(
    ("kind", "state", "expected"),
    [
        (3, bytes(KEY), {"extension": "mintCloseAuthority", "state": {"closeAuthority": str(KEY)}}),
        (3, bytes(32), {"extension": "mintCloseAuthority", "state": {"closeAuthority": None}}),
        (6, b"\x02", {"extension": "defaultAccountState", "state": {"accountState": "frozen"}}),
        (9, b"", {"extension": "nonTransferable"}),
        (12, bytes(KEY), {"extension": "permanentDelegate", "state": {"delegate": str(KEY)}}),
        (
            1,
            bytes(KEY) + bytes(32) + struct.pack("<QQQHQQH", 9, 1, 100, 50, 2, 200, 75),
            {
                "extension": "transferFeeConfig",
                "state": {
                    "transferFeeConfigAuthority": str(KEY),
                    "withdrawWithheldAuthority": None,
                    "withheldAmount": 9,
                    "olderTransferFee": {
                        "epoch": 1,
                        "maximumFee": 100,
                        "transferFeeBasisPoints": 50,
                    },
                    "newerTransferFee": {
                        "epoch": 2,
                        "maximumFee": 200,
                        "transferFeeBasisPoints": 75,
                    },
                },
            },
        ),
        (
            10,
            bytes(KEY) + struct.pack("<qhqh", 5, -3, 6, 250),
            {
                "extension": "interestBearingConfig",
                "state": {
                    "rateAuthority": str(KEY),
                    "initializationTimestamp": 5,
                    "preUpdateAverageRate": -3,
                    "lastUpdateTimestamp": 6,
                    "currentRate": 250,
                },
            },
        ),
        (
            14,
            bytes(KEY) + bytes(OTHER),
            {
                "extension": "transferHook",
                "state": {"authority": str(KEY), "programId": str(OTHER)},
            },
        ),
        (
            25,
            bytes(KEY) + struct.pack("<dqd", 1.5, 7, 2.0),
            {
                "extension": "scaledUiAmountConfig",
                "state": {
                    "authority": str(KEY),
                    "multiplier": "1.5",
                    "newMultiplierEffectiveTimestamp": 7,
                    "newMultiplier": "2",
                },
            },
        ),
        (
            26,
            bytes(KEY) + b"\x01",
            {"extension": "pausableConfig", "state": {"authority": str(KEY), "paused": True}},
        ),
        (4, bytes(65), {"extension": "unparsableExtension"}),
        (12, b"short", {"extension": "unparsableExtension"}),
        (999, b"", {"extension": "unparsableExtension"}),
    ],
)
def test_an_extension_is_listed_with_its_state(
    kind: int, state: bytes, expected: dict[str, Any]
) -> None:
    info = parse_account(KEY, extended_mint(kind, state), lambda _: None)["parsed"]["info"]
    assert info["extensions"] == [expected]


def test_a_multisig_shows_its_signers() -> None:
    signers = [Pubkey.new_unique(), Pubkey.new_unique()]
    data = bytes((2, 2, 1)) + b"".join(map(bytes, signers)) + bytes(9 * 32)
    shown = parse_account(KEY, Account(1, data, TOKEN), lambda _: None)
    assert shown["parsed"] == {
        "type": "multisig",
        "info": {
            "numRequiredSigners": 2,
            "numValidSigners": 2,
            "isInitialized": True,
            "signers": [str(signer) for signer in signers],
        },
    }


META = struct.pack("<Q", 2_282_880) + bytes(KEY) + bytes(OTHER) + struct.pack("<qQ32x", -1, 4)
SHOWN_META = {
    "rentExemptReserve": "2282880",
    "authorized": {"staker": str(KEY), "withdrawer": str(OTHER)},
    "lockup": {"unixTimestamp": -1, "epoch": 4, "custodian": "1" * 32},
}


def stake(data: bytes) -> Account:
    return Account(1, data.ljust(200, b"\0"), STAKE)


def test_a_delegated_stake_shows_amounts_and_epochs_as_text() -> None:
    delegation = bytes(OTHER) + struct.pack("<QQQdQ", 10**9, 3, 2**64 - 1, 0.25, 11)
    shown = parse_account(KEY, stake(struct.pack("<I", 2) + META + delegation), lambda _: None)
    assert shown == {
        "program": "stake",
        "parsed": {
            "type": "delegated",
            "info": {
                "meta": SHOWN_META,
                "stake": {
                    "delegation": {
                        "voter": str(OTHER),
                        "stake": "1000000000",
                        "activationEpoch": "3",
                        "deactivationEpoch": "18446744073709551615",
                        "warmupCooldownRate": 0.25,
                    },
                    "creditsObserved": 11,
                },
            },
        },
        "space": 200,
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (struct.pack("<I", 0), {"type": "uninitialized"}),
        (
            struct.pack("<I", 1) + META,
            {"type": "initialized", "info": {"meta": SHOWN_META, "stake": None}},
        ),
        (struct.pack("<I", 3), {"type": "rewardsPool"}),
    ],
)
def test_a_stake_that_is_not_delegated_says_what_it_is(
    data: bytes, expected: dict[str, Any]
) -> None:
    assert parse_account(KEY, stake(data), lambda _: None)["parsed"] == expected


def vote_data(version: int) -> bytes:
    commission = b"\x07"
    if version == 3:
        commission = bytes(64) + struct.pack("<HHQB", 700, 0, 5, 1) + bytes(48)
    vote = struct.pack("<QI", 40, 31)
    prior = b"" if version == 3 else bytes(OTHER) + struct.pack("<QQ", 1, 2) + bytes(48 * 31 + 9)
    return (
        struct.pack("<I", version)
        + bytes(KEY)
        + bytes(OTHER)
        + commission
        + struct.pack("<Q", 1)
        + (vote if version == 1 else b"\x01" + vote)
        + struct.pack("<BQ", 1, 9)
        + struct.pack("<QQ", 1, 5)
        + bytes(KEY)
        + prior
        + struct.pack("<QQQQ", 1, 5, 100, 90)
        + struct.pack("<Qq", 40, 1_700_000_000)
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_version_of_a_vote_account_shows_the_same_state(version: int) -> None:
    # The numbers are the enum's: 1 is the state of 1.14.11, 2 the third version, 3 the fourth.
    account = Account(1, vote_data(version).ljust(3762, b"\0"), VOTE)
    prior = {"authorizedPubkey": str(OTHER), "epochOfLastAuthorizedSwitch": 1, "targetEpoch": 2}
    assert parse_account(KEY, account, lambda _: None) == {
        "program": "vote",
        "parsed": {
            "type": "vote",
            "info": {
                "nodePubkey": str(KEY),
                "authorizedWithdrawer": str(OTHER),
                "commission": 7,
                "votes": [{"slot": 40, "confirmationCount": 31}],
                "rootSlot": 9,
                "authorizedVoters": [{"epoch": 5, "authorizedVoter": str(KEY)}],
                "priorVoters": [] if version == 3 else [prior],
                "epochCredits": [{"epoch": 5, "credits": "100", "previousCredits": "90"}],
                "lastTimestamp": {"slot": 40, "timestamp": 1_700_000_000},
            },
        },
        "space": 3762,
    }


def test_a_nonce_account_shows_its_authority_and_blockhash(bank: Bank) -> None:
    nonce, payer = Keypair(), bank.payer.pubkey()
    bank.run(
        [
            create_account(
                CreateAccountParams(
                    from_pubkey=payer,
                    to_pubkey=nonce.pubkey(),
                    lamports=2_000_000,
                    space=80,
                    owner=Pubkey.default(),
                )
            ),
            initialize_nonce_account(
                InitializeNonceAccountParams(nonce_pubkey=nonce.pubkey(), authority=payer)
            ),
        ],
        nonce,
    )
    shown = parsed(bank, nonce.pubkey())
    assert shown["program"] == "nonce"
    assert shown["parsed"]["type"] == "initialized"
    info = shown["parsed"]["info"]
    assert info["authority"] == str(payer)
    account = bank.svm.get_account(nonce.pubkey())
    assert account is not None
    assert Hash.from_string(info["blockhash"]) == Hash(account.data[40:72])
    assert info["feeCalculator"] == {"lamportsPerSignature": "5000"}


def test_a_plain_system_account_falls_back_to_base64(bank: Bank) -> None:
    assert parsed(bank, bank.payer.pubkey()) == ["", "base64"]


def test_allocated_zeros_are_no_nonce() -> None:
    with pytest.raises(Unparsable):
        parse_account(KEY, Account(1, bytes(80), Pubkey.default()), lambda _: None)


def test_sysvars_show_what_the_bank_holds(bank: Bank) -> None:
    clock = bank.svm.get_clock()
    shown = parsed(bank, CLOCK)
    assert shown["program"] == "sysvar"
    assert shown["parsed"]["type"] == "clock"
    assert shown["parsed"]["info"]["slot"] == clock.slot
    assert shown["parsed"]["info"]["unixTimestamp"] == clock.unix_timestamp
    rent = bank.svm.get_rent()
    assert parsed(bank, RENT)["parsed"]["info"]["lamportsPerByteYear"] == str(
        rent.lamports_per_byte
    )
    schedule = parsed(bank, EPOCH_SCHEDULE)["parsed"]["info"]
    assert schedule["slotsPerEpoch"] == bank.svm.get_epoch_schedule().slots_per_epoch
    assert parsed(bank, STAKE_HISTORY)["parsed"] == {"type": "stakeHistory", "info": []}
    assert parsed(bank, SLOT_HASHES)[1] == "base64"


def test_a_lookup_table_shows_its_addresses() -> None:
    meta = struct.pack("<IQQBB", 1, 2**64 - 1, 5, 0, 1) + bytes(KEY)
    data = meta.ljust(56, b"\0") + bytes(OTHER) + bytes(KEY)
    shown = parse_account(KEY, Account(1, data, LOOKUP_TABLES), lambda _: None)
    assert shown["program"] == "address-lookup-table"
    assert shown["parsed"] == {
        "type": "lookupTable",
        "info": {
            "deactivationSlot": "18446744073709551615",
            "lastExtendedSlot": "5",
            "lastExtendedSlotStartIndex": 0,
            "authority": str(KEY),
            "addresses": [str(OTHER), str(KEY)],
        },
    }


@pytest.mark.parametrize(
    "account",
    [
        Account(1, b"", TOKEN),
        Account(1, bytes(165), TOKEN),
        Account(1, bytes(82), TOKEN),
        Account(1, bytes(355), TOKEN),
        Account(1, b"\x05\0\0\0", STAKE),
        Account(1, b"\x02\0\0\0", STAKE),
        Account(1, b"\x00\0\0\0", VOTE),
        Account(1, struct.pack("<I32s32sBQ", 2, b"", b"", 1, 2**63), VOTE),
        Account(1, b"\x07\0\0\0", LOOKUP_TABLES),
        Account(1, b"", Pubkey.new_unique()),
    ],
    ids=repr,
)
def test_data_that_is_not_of_the_layout_is_unparsable(account: Account) -> None:
    with pytest.raises(Unparsable):
        parse_account(CLOCK, account, lambda _: None)


OWNERS = (TOKEN, TOKEN_2022, STAKE, VOTE, LOOKUP_TABLES, Pubkey.default())
MINT = Account(1, struct.pack("<I32sQBBI32s", 0, bytes(32), 0, 6, 1, 0, bytes(32)), TOKEN)
KINDS = st.integers(0, 3).map(lambda kind: struct.pack("<I", kind))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(OWNERS),
    st.builds(bytes.__add__, KINDS, st.binary(min_size=160, max_size=500)),
    st.integers(0, 500),
    st.sampled_from((0, 1, 2, 255)),
)
def test_any_bytes_are_parsed_into_json_or_refused(
    owner: Pubkey, data: bytes, length: int, mark: int
) -> None:
    marked = bytearray(data)
    # The bytes that tell mints and token accounts apart, so that many get past them.
    marked[45] = marked[108] = 1
    if len(marked) > 165:
        marked[165] = mark
    for cut in (bytes(marked), bytes(marked[:length]), bytes(marked[:165]), bytes(marked[:82])):
        try:
            shown = parse_account(KEY, Account(1, cut, owner), lambda _: MINT)
        except Unparsable:
            continue
        json.dumps(shown, allow_nan=False)


def test_a_float_that_json_cannot_say_is_null() -> None:
    delegation = bytes(OTHER) + struct.pack("<QQQdQ", 1, 3, 4, float("nan"), 11)
    shown = parse_account(KEY, stake(struct.pack("<I", 2) + META + delegation), lambda _: None)
    assert shown["parsed"]["info"]["stake"]["delegation"]["warmupCooldownRate"] is None


@pytest.mark.parametrize(
    ("amount", "decimals", "ui", "text"),
    [
        (0, 6, 0.0, "0"),
        (1, 9, 1e-9, "0.000000001"),
        (1_000, 0, 1000.0, "1000"),
        (1_000_000, 6, 1.0, "1"),
        (2**64 - 1, 9, 18446744073.709553, "18446744073.709551615"),
        (5, 20, None, "0.00000000000000000005"),
    ],
)
def test_an_amount_is_shown_exactly_as_text(
    amount: int, decimals: int, ui: float | None, text: str
) -> None:
    assert ui_token_amount(amount, decimals) == {
        "amount": str(amount),
        "decimals": decimals,
        "uiAmount": ui,
        "uiAmountString": text,
    }


def test_decimals_are_only_read_from_a_mint(bank: Bank) -> None:
    mint = bank.mint(decimals=4)
    address = bank.token_account(Pubkey.new_unique(), mint, 1)
    assert mint_decimals(mint, bank.svm.get_account) == 4
    for other in (address, bank.payer.pubkey(), Pubkey.new_unique()):
        with pytest.raises(Unparsable, match=str(other)):
            mint_decimals(other, bank.svm.get_account)
