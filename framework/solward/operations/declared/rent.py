"""Rent that comes back: the excess of token accounts, and empty ones that can be closed."""

from __future__ import annotations

from solward.operations.declared.operation import Operation
from solward.resources.fields import Amount, Choice, Whole
from solward.types.record import TransactionType

# Accounts that one transaction takes rent from: of both token programs and with a memo they fit
# into 1,232 bytes.
MOST_AT_ONCE = 20

_TAKE = Choice(
    "What to take: the excess of accounts, empty accounts, or both.",
    name="take",
    options=("all", "excess", "empty"),
    default="all",
)

RECLAIM_RENT = Operation(
    name="reclaim_rent",
    type=TransactionType.RECLAIM_RENT,
    tag="tokens",
    title="Take back rent that token accounts do not need, and close empty ones",
    does=(
        "Take back the rent that the wallet's token accounts hold beyond what the cluster asks, and"
        " close its empty ones."
    ),
    note=(
        f"One transaction takes from at most {MOST_AT_ONCE} accounts, the most first; `left` says"
        " how many remain for another call. `GET /wallets/:id/reclaimable` lists them before."
    ),
    fields=(_TAKE,),
    details=(
        Amount("SOL that comes back.", name="reclaimed"),
        Whole("Empty accounts that are closed.", name="closed", least=0, most=MOST_AT_ONCE),
        Whole("Accounts that give their excess.", name="reduced", least=0, most=MOST_AT_ONCE),
        Whole("Accounts from which another call can take.", name="left", least=0, most=10**9),
    ),
    example={"take": "all"},
    answer={"reclaimed": 0.00259012, "closed": 1, "reduced": 1, "left": 0},
    refusals=("There is no rent to reclaim",),
    verb="Reclaim",
    progress="Reclaiming",
    repeats=True,
)
