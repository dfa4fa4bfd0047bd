"""Accounts and transactions in the encodings of the RPC, with Agave's limits and texts."""

import base64

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.account import Account
from solders.pubkey import Pubkey
from solders.signature import Signature

from solward.support.base58 import b58encode
from solward_localnet.encoding import encode_account
from solward_localnet.jsonrpc import RpcError
from solward_localnet.txjson import decode_transaction

ADDRESS = Pubkey(bytes(range(32)))
OWNER = Pubkey(bytes(reversed(range(32))))


def account(data: bytes) -> Account:
    return Account(5_000, data, OWNER, True, 2**64 - 1)


@settings(deadline=None)
@given(st.binary(min_size=64, max_size=64))
def test_base58_agrees_with_solders(data: bytes) -> None:
    assert b58encode(data) == str(Signature.from_bytes(data))


def test_an_account_carries_its_fields_and_its_whole_length() -> None:
    assert encode_account(account(b"abcdef"), "base64", {"offset": 1, "length": 3}, ADDRESS) == {
        "lamports": 5_000,
        "data": [base64.b64encode(b"bcd").decode(), "base64"],
        "owner": str(OWNER),
        "executable": True,
        "rentEpoch": 2**64 - 1,
        "space": 6,
    }


@pytest.mark.parametrize("encoding", [None, "binary"])
def test_the_legacy_encoding_is_base58_text_alone(encoding: str | None) -> None:
    assert encode_account(account(b"abc"), encoding, None, ADDRESS)["data"] == b58encode(b"abc")


def test_base58_takes_128_bytes_and_refuses_one_more_unless_sliced() -> None:
    assert encode_account(account(bytes(128)), "base58", None, ADDRESS)["data"][1] == "base58"
    with pytest.raises(RpcError, match="less than 128 bytes, please use Base64") as caught:
        encode_account(account(bytes(129)), "base58", None, ADDRESS)
    assert caught.value.code == -32600
    window = {"offset": 100, "length": 40}
    assert encode_account(account(bytes(129)), "base58", window, ADDRESS)["data"][0] == "1" * 29


def test_zstd_data_decompresses_to_the_account_data() -> None:
    text, name = encode_account(account(b"x" * 5_000), "base64+zstd", None, ADDRESS)["data"]
    assert name == "base64+zstd"
    assert len(text) < 100
    frame = base64.b64decode(text)
    assert zstd.decompress(frame) == b"x" * 5_000


def test_a_slice_past_the_end_is_empty() -> None:
    encoded = encode_account(account(b"abc"), "base64", {"offset": 9, "length": 3}, ADDRESS)
    assert encoded["data"] == ["", "base64"]


def test_an_account_without_a_parser_falls_back_to_base64_with_its_slice() -> None:
    window = {"offset": 0, "length": 2}
    encoded = encode_account(account(b"abc"), "jsonParsed", window, ADDRESS)
    assert encoded["data"] == [base64.b64encode(b"ab").decode(), "base64"]


@pytest.mark.parametrize("window", [{}, {"offset": 0}, {"offset": -1, "length": 1}])
def test_a_bad_slice_is_named(window: dict[str, int]) -> None:
    with pytest.raises(RpcError, match=r"dataSlice\.(offset|length) must be a whole number"):
        encode_account(account(b"abc"), "base64", window, ADDRESS)


def test_an_unknown_encoding_is_named_with_the_known_ones() -> None:
    with pytest.raises(RpcError, match="unknown variant `hex`, expected one of `binary`") as caught:
        encode_account(account(b""), "hex", None, ADDRESS)
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        ("AAAA", "hex", "unsupported encoding: hex. Supported encodings: base58, base64"),
        ("0OIl", "base58", "invalid base58 encoding: invalid character '0' at position 0"),
        ("????", "base64", "invalid base64 encoding"),
        ("AAA", "base64", "invalid base64 encoding"),
        ("1" * 5595, "base58", r"too large: 5595 bytes \(max: encoded/raw 5594/4096\)"),
        ("A" * 5468, "base64", r"too large: 5468 bytes \(max: encoded/raw 5464/4096\)"),
        ("A" * 5464, "base64", r"too large: 4098 bytes \(max: 4096 bytes\)"),
        ("1" * 5594, "base58", r"too large: 5594 bytes \(max: 4096 bytes\)"),
    ],
)
def test_a_transaction_that_cannot_be_decoded_is_refused(
    text: str, encoding: str, message: str
) -> None:
    with pytest.raises(RpcError, match=message) as caught:
        decode_transaction(text, encoding)
    assert caught.value.code == -32602
