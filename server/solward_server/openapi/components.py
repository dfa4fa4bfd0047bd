"""`components/schemas` of the document: what responses consist of."""

from __future__ import annotations

from solward.operations.declared.swap import MAX_SLIPPAGE_BPS
from solward.resources.answers import answer_schema
from solward.resources.fields import Schema, nullable
from solward.resources.holds import LINE
from solward.resources.schema import (
    address,
    array,
    choice,
    flag,
    mapping,
    ref,
    response_object,
    sol,
    text,
    units,
    whole,
)
from solward.resources.transactions import Transaction
from solward.types.record import TransactionStatus, TransactionType
from solward.vault.grants.model import NewRecipient

_TRANSACTION = answer_schema(Transaction)
RECORD: dict[str, Schema] = _TRANSACTION["properties"] | {
    "type": _TRANSACTION["properties"]["type"]
    | {"examples": [kind.value for kind in TransactionType]}
}
RECORD_OPTIONAL = tuple(RECORD.keys() - set(_TRANSACTION["required"]))


_TERMS = response_object(
    {
        "perTx": text("Most in one transaction."),
        "per": mapping(text("Most in it."), "Windows from `1m` to `30d`: 1 to 4."),
        "hold": text("Above it a person is asked."),
    },
    optional=["perTx", "hold"],
)
_GRANT: dict[str, Schema] = {
    "who": text(
        "A principal: `agent:`, `key:`, `schedule:`, `wallet:`, `plugin:` or `skill:` and id or"
        " name, or `site:` and a host, with its port where that is not 443."
    ),
    "wallet": text("The only wallet it is for, by id or name."),
    "may": array(text("What it may do."), "`transfer`, `swap`, `stake` and so on."),
    "assets": mapping(
        {
            "anyOf": [
                _TERMS,
                response_object({"usd": _TERMS}),
            ]
        },
        "Symbol or mint -> limits in whole units; `*` is every other asset, in dollars.",
    ),
    "to": array(text("A recipient."), "`any`, `own`, addresses, `@name` of the book."),
    "new": choice("A recipient never paid before.", *NewRecipient),
    "via": array(
        text("Such as `site:api.example.com`."),
        "Sites whose requests alone are paid for; `may` is `pay` alone then.",
    ),
    "costs": text("SOL of fees and rent in 24 hours."),
    "rate": mapping(whole("Transactions.", 1), "Windows as in `per`."),
    "hours": text("Such as `07:00-22:00 UTC`."),
    "until": text("ISO 8601."),
    "swap": response_object(
        {
            "slippageBps": whole("At most.", 0, MAX_SLIPPAGE_BPS),
            "impactBps": whole("At most.", 0, 10_000),
            "into": array(text("A symbol or mint."), "What may be bought."),
        },
        optional=["slippageBps", "impactBps", "into"],
    ),
}
GRANT = response_object(
    _GRANT,
    optional=[name for name in _GRANT if name != "may"],
    description="One permission, as docs/grants.md has it; `who` where nothing else says it.",
)
_NUMBERS = {
    "asked": "What was asked for.",
    "limit": "What is allowed.",
    "left": "What of it was left.",
    "used": "What of it was used.",
    "unit": "Of these, such as `SOL`; where there is none they begin with `$` or end with `%`.",
    "window": "The time that the limit is for, such as `24 hours`.",
    "mint": "Of the token, where the unit names it by its mint and not by its symbol.",
}
_BOOK = mapping(
    array(address("An address."), "The group's."),
    "Address book: groups that `to` of a grant says as `@name`.",
)
SAID_GRANT: Schema = {"anyOf": [ref("Grant"), text("The sentence of one.", 20_000)]}
POLICY = {
    "version": whole(
        "Of the policy in force; in a request, the one that the change was written for.", 0, 2**53
    ),
    "book": _BOOK,
    "grants": array(ref("Grant"), "In the order in which they are looked at."),
    "readOnly": array(text("A principal."), "Principals that are under grants and have none."),
}
SCHEMAS: dict[str, Schema] = {
    "Grant": GRANT,
    "Policy": response_object(
        {
            "policy": response_object(POLICY, optional=["version"]),
            "sentences": array(text("A sentence."), "What it says, one for each grant."),
        }
    ),
    "Error": response_object({"error": text("What is wrong.")}),
    "TransactionStatus": choice("See docs/transactions.md.", *TransactionStatus),
    "Transaction": response_object(RECORD, optional=RECORD_OPTIONAL),
    "RefusalNumbers": response_object(
        {name: text(meaning) for name, meaning in _NUMBERS.items()}, optional=tuple(_NUMBERS)
    ),
    "JudgedTransaction": response_object(
        RECORD
        | {
            "refusal": response_object(
                {
                    "rule": text("The rule that refused it."),
                    "reason": text("Why, in its words."),
                    "numbers": ref("RefusalNumbers"),
                }
            ),
            "couldLeave": response_object(
                {
                    "lines": array(LINE, "What its bytes could take."),
                    "costsLamports": units("Network fee and rent, at most, in lamports."),
                }
            ),
        },
        optional=(*RECORD_OPTIONAL, "refusal", "couldLeave"),
    ),
    "DryRun": response_object(
        {
            "dryRun": flag("Always true.", const=True),
            "allowed": flag("Whether it would be signed and sent."),
            "rule": text("The rule that refuses it; only where one does."),
            "held": flag("That a person would be asked; only where one would.", const=True),
            "reason": text("Why it is not allowed, or a person would be asked; only then."),
            "numbers": ref("RefusalNumbers"),
            "guardrailsApplied": RECORD["guardrailsApplied"],
            "effects": response_object(
                {
                    "solOut": sol("Gross."),
                    "fee": sol("The network's fee."),
                    "rent": sol("Rent of accounts it opens."),
                    "accountsCreated": whole("How many it opens.", 0),
                    "tokensOut": mapping(units("Smallest units."), "By mint."),
                    "tokensIn": mapping(
                        units("Smallest units."), "By mint; SOL under the wrapped SOL mint."
                    ),
                    "programs": array(address("A program."), "The programs it calls."),
                    "authorityChanges": array(
                        response_object(
                            {
                                "kind": text("Of authority."),
                                "account": address("Whose."),
                                "to": nullable(address("Who gets it; null is nobody.")),
                            }
                        )
                    ),
                    "closedAccounts": mapping(text("Who gets its SOL."), "By account."),
                },
                description="What the simulation shows; absent where it failed.",
            ),
        },
        optional=["rule", "held", "reason", "numbers", "effects"],
    ),
}
