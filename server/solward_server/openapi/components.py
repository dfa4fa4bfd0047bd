"""What of `components/schemas` no answer declares: the language of grants, and errors."""

from __future__ import annotations

from solward.operations.declared import MAX_SLIPPAGE_BPS
from solward.resources.declare import answer_schema
from solward.resources.fields import Choice, Field, Schema, Text, Whole
from solward.resources.schema import array, mapping, response_object
from solward.resources.transactions import NUMBERS, Transaction
from solward.types.record import TransactionStatus
from solward.vault.grants.model import NewRecipient

RECORD: dict[str, Schema] = answer_schema(Transaction)["properties"]


_TERMS = response_object(
    {
        "perTx": Text("Most in one transaction."),
        "per": mapping(Text("Most in it."), "Windows from `1m` to `30d`: 1 to 4."),
        "hold": Text("Above it a person is asked."),
    },
    optional=["perTx", "hold"],
)
_GRANT: dict[str, Field | Schema] = {
    "who": Text(
        "A principal: `agent:`, `key:`, `schedule:`, `wallet:`, `plugin:` or `skill:` and id or"
        " name, or `site:` and a host, with its port where that is not 443."
    ),
    "wallet": Text("The only wallet it is for, by id or name."),
    "may": array(Text("What it may do."), "`transfer`, `swap`, `stake` and so on."),
    "assets": mapping(
        {
            "anyOf": [
                _TERMS,
                response_object({"usd": _TERMS}),
            ]
        },
        "Symbol or mint -> limits in whole units; `*` is every other asset, in dollars.",
    ),
    "to": array(Text("A recipient."), "`any`, `own`, addresses, `@name` of the book."),
    "new": Choice("A recipient never paid before.", options=tuple(NewRecipient)),
    "via": array(
        Text("Such as `site:api.example.com`."),
        "Sites whose requests alone are paid for; `may` is `pay` alone then.",
    ),
    "costs": Text("SOL of fees and rent in 24 hours."),
    "rate": mapping(Whole("Transactions.", least=1), "Windows as in `per`."),
    "hours": Text("Such as `07:00-22:00 UTC`."),
    "until": Text("ISO 8601."),
    "swap": response_object(
        {
            "slippageBps": Whole("At most.", least=0, most=MAX_SLIPPAGE_BPS),
            "impactBps": Whole("At most.", least=0, most=10_000),
            "into": array(Text("A symbol or mint."), "What may be bought."),
        },
        optional=["slippageBps", "impactBps", "into"],
    ),
}
GRANT = response_object(
    _GRANT,
    optional=[name for name in _GRANT if name != "may"],
    description="One permission, as docs/grants.md has it; `who` where nothing else says it.",
)
SCHEMAS: dict[str, Schema] = {
    "Grant": GRANT,
    "Error": response_object({"error": Text("What is wrong.")}),
    "TransactionStatus": Choice(
        "See docs/transactions.md.", options=tuple(TransactionStatus)
    ).shown(),
    "RefusalNumbers": NUMBERS,
}
