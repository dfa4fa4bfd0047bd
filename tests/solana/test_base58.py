"""Base58 stands for bytes in one way: no two texts for the same, and none but by its alphabet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solward.support.base58 import b58decode, b58encode

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@given(st.text(ALPHABET, max_size=90))
def test_what_is_decoded_is_written_in_no_other_way(text: str) -> None:
    assert b58encode(b58decode(text)) == text


@given(st.binary(max_size=70))
def test_what_is_written_is_decoded_to_the_same(data: bytes) -> None:
    assert b58decode(b58encode(data)) == data


@pytest.mark.parametrize("text", ["0", "O", "I", "l", " 1", "1 ", "1\n", "é", "１"])
def test_another_character_is_named_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid character .* at position \d"):
        b58decode(text)
