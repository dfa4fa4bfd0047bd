"""A recipient's name is one address or an error; an address is itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from tests.promises import promise

from solward.client import Contact
from solward.support.base58 import b58encode
from solward.types.address_book import AddressBook
from solward.types.errors import InvalidRequest

ONE, OTHER, THIRD = (b58encode(bytes([each] * 32)) for each in (1, 2, 3))


def _contact(name: str, address: str) -> Contact:
    now = datetime.now(UTC)
    return Contact(address=address, name=name, created_at=now, raw={})


RECIPIENTS = AddressBook.from_lists(
    (),
    [
        _contact("Landlord", ONE),
        _contact("@vendors", ONE),
        _contact("@vendors", OTHER),
        # Whoever may name a wallet or a contact calls it like somebody's address.
        _contact(THIRD, ONE),
    ],
)


def test_a_name_is_its_address() -> None:
    assert RECIPIENTS.address("Landlord") == ONE


@promise("name-becomes-address-once")
def test_an_address_is_itself_whoever_is_called_so() -> None:
    assert RECIPIENTS.address(THIRD) == THIRD


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@vendors", "^to is the name of 2 addresses; give one of them: "),
        ("landlord", "^to must be an address, or the name of a contact"),
        ("", "^to must be an address"),
    ],
)
def test_what_is_not_one_address_is_an_error(text: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        RECIPIENTS.address(text, "to")


def test_names_are_suggested_in_their_order_and_not_without_end() -> None:
    assert RECIPIENTS.suggested == sorted([THIRD, "@vendors", "Landlord"])
    many = AddressBook.from_lists((), [_contact(f"n{at:04}", ONE) for at in range(2_000)])
    assert many.suggested[-1] == "n0499"


class _Own(NamedTuple):
    id: str
    name: str
    address: str
    created_by: str | None


@promise("keys-names-stand-in-no-way")
def test_a_keys_wallet_is_called_by_its_id_if_others_have_one_that_looks_the_same() -> None:
    own, theirs = _Own("w1", "treasury", ONE, "admin"), _Own("w2", "Treasury", OTHER, "key:k1")
    lone = _Own("w3", "pocket", THIRD, "key:k1")
    book = AddressBook.from_lists([theirs, own, lone, lone._replace(id="w4")])
    assert book.called == {ONE: "wallet treasury", OTHER: "wallet w2", THIRD: "wallet pocket"}
    unknown = AddressBook.from_lists([theirs, lone, own._replace(created_by=None)])
    assert unknown.called[OTHER] == "wallet w2"
    assert AddressBook.from_lists([theirs, lone]).called[OTHER] == "wallet Treasury"
