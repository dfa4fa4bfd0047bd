"""Account data and instructions in the shapes of Agave's `jsonParsed` encoding.

The shapes follow `account-decoder` and `transaction-status` of anza-xyz/agave. What has no parser
raises `Unparsable`; the caller then falls back as Agave does (base64, or a partially decoded
instruction).
"""

from solward_localnet.parsed.accounts import parse_account
from solward_localnet.parsed.instructions import parse_instruction
from solward_localnet.parsed.reader import ParseContext, Unparsable
from solward_localnet.parsed.tokens import mint_decimals, ui_token_amount

__all__ = [
    "ParseContext",
    "Unparsable",
    "mint_decimals",
    "parse_account",
    "parse_instruction",
    "ui_token_amount",
]
