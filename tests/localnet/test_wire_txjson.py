"""Stored transactions in the JSON of getTransaction; solders' strict parser must take each."""

import base64
import dataclasses
import json
from typing import Any

import pytest
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from solders.transaction_status import EncodedConfirmedTransactionWithStatusMeta
from tests.support.tokens import TOKEN

from solward.support.base58 import b58decode, b58encode
from solward_localnet.jsonrpc import RpcError
from solward_localnet.storage import StoredTransaction
from solward_localnet.txjson import parsed_inner_instructions, transaction_json

PAYER = Keypair.from_seed(bytes([1]) * 32)
TARGET, LOADED, READ = (Pubkey(bytes([number]) * 32) for number in (7, 8, 9))
STRANGER = Pubkey(bytes([6]) * 32)
BLOCKHASH = Hash(bytes([5]) * 32)
TRANSFER = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=TARGET, lamports=9))


def stored(transaction: VersionedTransaction, **changes: Any) -> StoredTransaction:
    keys = len(transaction.message.account_keys)
    record = StoredTransaction(
        signature=str(transaction.signatures[0]),
        slot=40,
        block_time=1_700_000_000,
        err=None,
        fee=5_000,
        wire=bytes(transaction),
        compute_units=150,
        log_messages=("Program 1 success",),
        pre_balances=(100,) * keys,
        post_balances=(91,) * keys,
        pre_token_balances=(),
        post_token_balances=(),
        inner_instructions=(),
    )
    return dataclasses.replace(record, **changes)


def legacy() -> VersionedTransaction:
    message = Message.new_with_blockhash([TRANSFER], PAYER.pubkey(), BLOCKHASH)
    return VersionedTransaction(message, [PAYER])


def with_lookups() -> StoredTransaction:
    table = AddressLookupTableAccount(Pubkey(bytes([3]) * 32), [READ, LOADED])
    call = Instruction(
        STRANGER,
        b"\x2a",
        [
            AccountMeta(LOADED, is_signer=False, is_writable=True),
            AccountMeta(READ, is_signer=False, is_writable=False),
        ],
    )
    message = MessageV0.try_compile(PAYER.pubkey(), [TRANSFER, call], [table], BLOCKHASH)
    balances = (100,) * (len(message.account_keys) + 2)
    return stored(
        VersionedTransaction(message, [PAYER]),
        pre_balances=balances,
        post_balances=balances,
        loaded_writable=(str(LOADED),),
        loaded_readonly=(str(READ),),
    )


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    EncodedConfirmedTransactionWithStatusMeta.from_json(json.dumps(answer))
    return answer


def test_the_json_encoding_shows_the_message_as_it_is() -> None:
    transaction = legacy()
    answer = checked(transaction_json(stored(transaction), "json", 0))
    assert answer["version"] == "legacy"
    assert answer["slot"] == 40
    assert answer["blockTime"] == 1_700_000_000
    assert answer["transaction"] == {
        "signatures": [str(transaction.signatures[0])],
        "message": {
            "header": {
                "numRequiredSignatures": 1,
                "numReadonlySignedAccounts": 0,
                "numReadonlyUnsignedAccounts": 1,
            },
            "accountKeys": [str(PAYER.pubkey()), str(TARGET), "1" * 32],
            "recentBlockhash": str(BLOCKHASH),
            "instructions": [
                {
                    "programIdIndex": 2,
                    "accounts": [0, 1],
                    "data": b58encode(TRANSFER.data),
                    "stackHeight": 1,
                }
            ],
        },
    }


def test_meta_carries_what_the_execution_did() -> None:
    returned = {"programId": str(STRANGER), "data": ["Kg==", "base64"]}
    answer = checked(transaction_json(stored(legacy(), return_data=returned), "json", 0))
    assert answer["meta"] == {
        "err": None,
        "status": {"Ok": None},
        "fee": 5_000,
        "preBalances": [100, 100, 100],
        "postBalances": [91, 91, 91],
        "innerInstructions": [],
        "logMessages": ["Program 1 success"],
        "preTokenBalances": [],
        "postTokenBalances": [],
        "rewards": [],
        "loadedAddresses": {"writable": [], "readonly": []},
        "computeUnitsConsumed": 150,
        "returnData": returned,
    }


def test_a_failure_is_shown_as_err_and_as_status() -> None:
    err = {"InstructionError": [0, {"Custom": 1}]}
    meta = checked(transaction_json(stored(legacy(), err=err), "json", 0))["meta"]
    assert meta["err"] == err
    assert meta["status"] == {"Err": err}


@pytest.mark.parametrize("encoding", ["base58", "base64", "binary"])
def test_the_binary_encodings_give_back_the_wire(encoding: str) -> None:
    record = stored(legacy())
    shown = transaction_json(record, encoding, 0)["transaction"]
    if encoding == "binary":
        assert b58decode(shown) == record.wire
        return
    text, name = shown
    assert name == encoding
    assert (base64.b64decode(text) if encoding == "base64" else b58decode(text)) == record.wire


def test_parsed_instructions_name_their_accounts_and_unknown_ones_stay_partial() -> None:
    answer = checked(transaction_json(with_lookups(), "jsonParsed", 0))
    message = answer["transaction"]["message"]
    assert message["instructions"] == [
        {
            "program": "system",
            "programId": "1" * 32,
            "parsed": {
                "type": "transfer",
                "info": {"source": str(PAYER.pubkey()), "destination": str(TARGET), "lamports": 9},
            },
            "stackHeight": 1,
        },
        {
            "programId": str(STRANGER),
            "accounts": [str(LOADED), str(READ)],
            "data": b58encode(b"\x2a"),
            "stackHeight": 1,
        },
    ]
    assert message["addressTableLookups"][0]["writableIndexes"] == [1]
    assert message["addressTableLookups"][0]["readonlyIndexes"] == [0]
    assert answer["version"] == 0


def test_parsed_accounts_say_who_signs_who_is_written_and_where_they_come_from() -> None:
    message = transaction_json(with_lookups(), "jsonParsed", 0)["transaction"]["message"]
    flags = {
        key["pubkey"]: (key["signer"], key["writable"], key["source"])
        for key in message["accountKeys"]
    }
    assert flags == {
        str(PAYER.pubkey()): (True, True, "transaction"),
        str(TARGET): (False, True, "transaction"),
        "1" * 32: (False, False, "transaction"),
        str(STRANGER): (False, False, "transaction"),
        str(LOADED): (False, True, "lookupTable"),
        str(READ): (False, False, "lookupTable"),
    }


def test_loaded_addresses_are_listed_for_a_raw_transaction() -> None:
    meta = checked(transaction_json(with_lookups(), "json", 0))["meta"]
    assert meta["loadedAddresses"] == {"writable": [str(LOADED)], "readonly": [str(READ)]}


def test_inner_instructions_are_parsed_like_outer_ones() -> None:
    addresses = [str(key) for key in (PAYER.pubkey(), TARGET, STRANGER, TOKEN)]
    inner = {"programIdIndex": 3, "accounts": [0, 1, 2], "data": b58encode(b"\x03" + bytes(8))}
    groups = [{"index": 1, "instructions": [inner | {"stackHeight": 2}]}]
    assert parsed_inner_instructions(groups, addresses) == [
        {
            "index": 1,
            "instructions": [
                {
                    "program": "spl-token",
                    "programId": str(TOKEN),
                    "parsed": {
                        "type": "transfer",
                        "info": {
                            "source": addresses[0],
                            "destination": addresses[1],
                            "authority": addresses[2],
                            "amount": "0",
                        },
                    },
                    "stackHeight": 2,
                }
            ],
        }
    ]
    record = stored(legacy(), inner_instructions=tuple(groups))
    assert transaction_json(record, "json", 0)["meta"]["innerInstructions"] == groups


def test_without_a_highest_version_only_legacy_is_answered_and_no_version_is_named() -> None:
    assert "version" not in checked(transaction_json(stored(legacy()), "json", None))
    with pytest.raises(RpcError, match=r"Transaction version \(0\) is not supported") as caught:
        transaction_json(with_lookups(), "json", None)
    assert caught.value.code == -32015


def test_a_version_1_message_shows_its_configuration() -> None:
    config = TransactionConfig(priority_fee=11, compute_unit_limit=1_000)
    message = MessageV1.try_compile(PAYER.pubkey(), [TRANSFER], BLOCKHASH, config)
    record = stored(VersionedTransaction(message, [PAYER]))
    with pytest.raises(RpcError, match=r"version \(1\)"):
        transaction_json(record, "json", 0)
    answer = transaction_json(record, "json", 1)
    assert answer["version"] == 1
    shown = answer["transaction"]["message"]["transactionConfig"]
    assert shown["priorityFee"] == 11
    assert shown["computeUnitLimit"] == 1_000


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(RpcError, match="unknown variant `xml`") as caught:
        transaction_json(stored(legacy()), "xml", 0)
    assert caught.value.code == -32602
