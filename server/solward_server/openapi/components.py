"""The resources that several routes answer with."""

from __future__ import annotations

from solward.events import EventKind
from solward.record import TransactionStatus, TransactionType
from solward.solana.stakes import StakeState
from solward_server.openapi.schema import (
    Schema,
    address,
    array,
    choice,
    closed,
    flag,
    identifier,
    mapping,
    nullable,
    number,
    ref,
    sol,
    text,
    timestamp,
    units,
    whole,
)

RECORD: dict[str, Schema] = {
    "id": identifier("The record."),
    "walletId": identifier("The wallet it belongs to."),
    "agentId": identifier("The agent that caused it; absent where none did."),
    "type": text(
        "What it is; a plugin may give a transaction of its own another type.",
        examples=[kind.value for kind in TransactionType],
    ),
    "status": ref("TransactionStatus"),
    "signature": address("The ledger's signature, base58; absent until it is signed.")
    | {"pattern": "^[1-9A-HJ-NP-Za-km-z]{64,88}$"},
    "details": {"type": "object", "description": "By type; amounts are in whole units."},
    "guardrailsApplied": array(
        text("A rule's name."), "The rules evaluated, in order; one that refused is the last."
    ),
    "timestamp": timestamp("When it was judged."),
    "error": text("Why it is blocked or failed; only there."),
}
RECORD_OPTIONAL = ("agentId", "signature", "error")

_LIMITS: dict[str, Schema] = {
    "maxSolPerTransaction": closed({"limit": nullable(sol("SOL in one transaction."))}),
    "maxTransactionsPerMinute": closed(
        {
            "limit": nullable(whole("Transactions in any 60 seconds.", 0)),
            "used": whole("Of the last 60 seconds.", 0),
            "left": nullable(whole("How many more are possible now.", 0)),
        }
    ),
    "dailySpendingLimitSol": closed(
        {
            "limit": nullable(sol("SOL in any 24 hours.")),
            "spent": sol("What ended in the last 24 hours."),
            "reserved": sol("What unfinished transactions hold."),
            "left": nullable(sol("What may still be spent.")),
        }
    ),
    "dailyTokens": mapping(
        closed({name: units(name) for name in ("limit", "spent", "reserved", "left")}),
        "By mint, in smallest units.",
    ),
}

SCHEMAS: dict[str, Schema] = {
    "Error": closed({"error": text("What is wrong.")}),
    "Health": closed(
        {
            "status": choice(
                "`degraded` while the ledger or the database does not answer.", "ok", "degraded"
            ),
            "version": text("The service's."),
            "solana": closed(
                {
                    "healthy": flag("Whether the ledger answers."),
                    "network": text("Such as localnet or devnet."),
                    "slot": whole("0 where it does not answer.", 0),
                }
            ),
            "agents": closed(
                {
                    name: whole(name, 0)
                    for name in (
                        "total",
                        "running",
                        "totalAgents",
                        "runningAgents",
                        "stoppedAgents",
                        "idleAgents",
                    )
                }
            ),
        }
    ),
    "Key": closed(
        {
            "id": identifier("The key's record."),
            "name": text("For people."),
            "walletId": nullable(text("The only wallet it may use; null is all.")),
            "permissions": array(text("A permission."), "Stored and listed, not enforced."),
            "createdAt": timestamp("When it was made."),
            "lastUsedAt": nullable(timestamp("Null before its first use.")),
        }
    ),
    "Wallet": closed(
        {
            "id": identifier("The wallet."),
            "name": text("For people."),
            "publicKey": address("Its address."),
            "createdAt": timestamp("When it was made."),
            "tags": array(text("A tag."), "In the order they were given."),
        }
    ),
    "Balance": closed(
        {
            "sol": sol("SOL."),
            "tokens": array(
                closed(
                    {
                        "mint": address("The mint."),
                        "symbol": text("Where the mint is known."),
                        "uiBalance": number("Whole tokens.", minimum=0),
                        "rawBalance": units("Smallest units."),
                        "decimals": whole("Of a whole token.", 0, 255),
                    },
                    optional=["symbol"],
                ),
                "Empty token accounts are left out.",
            ),
        }
    ),
    "WalletLimits": closed(
        {
            "walletId": identifier("The wallet."),
            "frozen": flag("Whether its transactions, or all, are stopped."),
        }
        | _LIMITS
    ),
    "AgentLimits": closed(
        {
            "agentId": identifier("The agent."),
            "walletId": identifier("Its wallet."),
            "model": closed(
                {
                    "budget": ref("LlmBudget"),
                    "lastDay": closed(
                        {
                            "tokens": whole("In the last 24 full hours and this one.", 0),
                            "usd": number("Their estimated price.", minimum=0),
                            "unpricedTokens": whole("Those whose price is not known.", 0),
                        }
                    ),
                }
            ),
        }
        | _LIMITS
    ),
    "TransactionStatus": choice("See docs/transactions.md.", *TransactionStatus),
    "Transaction": closed(RECORD, optional=RECORD_OPTIONAL),
    "DryRun": closed(
        {
            "dryRun": flag("Always true.", const=True),
            "allowed": flag("Whether it would be signed and sent."),
            "rule": text("The rule that refuses it; only where one does."),
            "reason": text("Why it is not allowed; only then."),
            "guardrailsApplied": RECORD["guardrailsApplied"],
            "effects": closed(
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
                        closed(
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
        optional=["rule", "reason", "effects"],
    ),
    "Stake": closed(
        {
            "address": address("The stake account."),
            "balance": sol("SOL, rent included."),
            "state": choice("Activation.", *StakeState),
        }
    ),
    "AuditEntry": closed(
        {
            "seq": whole("Its number in the log, rising; in one process's log from 1.", 1),
            "timestamp": timestamp("When it was written."),
            "event": choice("Its kind.", *EventKind),
            "data": {"type": "object", "description": "By kind; see docs/events.md."},
            "chain": text("`wallet:<id>`, `agent:<id>`, or empty for what belongs to none."),
            "number": whole("Its number in its chain, from 1.", 1),
            "hash": text(
                "SHA-256 of it and the hash before it in its chain.", pattern="^[0-9a-f]{64}$"
            ),
        }
    ),
}
