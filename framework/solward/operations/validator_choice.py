"""The validator a stake goes to where the caller names none.

Pure: the same vote accounts and the same wallet always give the same choice. A validator qualifies
that

1. is not delinquent and charges at most `MAX_COMMISSION_PERCENT`,
2. voted in each of the last complete epochs, and earned at least `MIN_CREDITS_PERCENT` of the
   median validator's vote credits in each.

Of those it prefers, in this order,

1. one that is not among the validators that together hold more than a third of the stake and so
   could halt the network (the superminority), and has at least `MIN_STAKE_PERCENT` of the median
   validator's stake, because a vote account without stakers costs little to make; next one with
   less; next one of the superminority, since a network may have no other,
2. the lower commission,
3. more vote credits in its worst epoch, in whole percent of the median, 100 at most,
4. the lower hash of wallet and vote account, so that equal validators share the wallets, and a
   wallet keeps its validator while others come and go.

Sources: `getVoteAccounts` of Solana's JSON-RPC, whose word alone this is: a node that lies can have
its own validator chosen. The stake stays the wallet's: it decides who earns a commission, no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from statistics import median_low
from typing import Final

from solward.types.errors import InvalidRequest
from solward.types.ledger import VoteAccount

MAX_COMMISSION_PERCENT: Final = 10
MIN_CREDITS_PERCENT: Final = 90
MIN_STAKE_PERCENT: Final = 10
EPOCHS: Final = 4
"""Complete epochs looked at: a node lists five, of which one is not over."""


class _Weight(IntEnum):
    """How a validator's stake stands to the network's, the preferred one first."""

    ORDINARY = 0
    SMALL = 1
    SUPERMINORITY = 2


@dataclass(frozen=True, slots=True)
class ChosenValidator:
    """A vote account, and the grounds on which it was chosen."""

    address: str
    reason: str


def choose_validator(accounts: Sequence[VoteAccount], wallet: str) -> ChosenValidator:
    """The default validator of a wallet.

    Args:
        accounts: of the validators that are not delinquent.
        wallet: its address.

    Raises:
        InvalidRequest: there is none, or none qualifies.
    """
    if not accounts:
        raise InvalidRequest("validator is required: the network names no validator to stake with")
    cheap = [each for each in accounts if each.commission_percent <= MAX_COMMISSION_PERCENT]
    if not cheap:
        raise InvalidRequest(
            "validator is required: each validator of this network takes a commission of more than"
            f" {MAX_COMMISSION_PERCENT}%"
        )
    history = _History(accounts)
    voted = {each: history.percent(each) for each in cheap}
    qualified = [each for each in cheap if voted[each] >= MIN_CREDITS_PERCENT]
    if not qualified:
        raise InvalidRequest(
            "validator is required: no validator of this network with a commission of at most"
            f" {MAX_COMMISSION_PERCENT}% earned {MIN_CREDITS_PERCENT}% of the median's vote credits"
            f" in each of the last {history.known}"
        )
    weights = _weights(accounts)

    def rank(each: VoteAccount) -> tuple[int, int, int, bytes]:
        spread = hashlib.sha256(f"{wallet}:{each.address}".encode()).digest()
        return weights[each.address], each.commission_percent, -voted[each], spread

    best = min(qualified, key=rank)
    others = sum(rank(each)[:3] == rank(best)[:3] for each in qualified) - 1
    grounds = [
        f"Default: the first of {len(qualified)} that qualify among"
        f" {_counted(len(accounts), 'validator')}",
        f"commission {best.commission_percent}% (at most {MAX_COMMISSION_PERCENT}%)",
        f"vote credits of {voted[best]}% of the median or more in each of the last {history.known}"
        if history.epochs
        else "no complete epoch to judge votes by",
        _WORDS[weights[best.address]],
    ]
    if others:
        grounds.append(f"equal to {_counted(others, 'other')}, over which wallets are spread")
    return ChosenValidator(best.address, "; ".join(grounds))


_WORDS: Final = {
    _Weight.ORDINARY: "not in the superminority",
    _Weight.SMALL: "little stake, as no larger one outside the superminority qualifies",
    _Weight.SUPERMINORITY: "in the superminority, as none outside it qualifies",
}


class _History:
    """Vote credits of the last complete epochs, as a part of the median validator's."""

    def __init__(self, accounts: Sequence[VoteAccount]) -> None:
        self._credits = {each.address: dict(each.epoch_credits) for each in accounts}
        earned: dict[int, list[int]] = {}
        for by_epoch in self._credits.values():
            for epoch, count in by_epoch.items():
                # Of those that voted: accounts without votes, which cost nothing, would lower it.
                if count:
                    earned.setdefault(epoch, []).append(count)
        # The newest epoch is not over: early in it nobody has credits to compare.
        self.epochs = sorted(earned)[:-1][-EPOCHS:]
        self._medians = {epoch: median_low(earned[epoch]) for epoch in self.epochs}

    @property
    def known(self) -> str:
        """How many epochs are looked at, in words."""
        return _counted(len(self.epochs), "complete epoch")

    def percent(self, account: VoteAccount) -> int:
        """Credits of its worst epoch in whole percent of the median, 100 at most; 0 where it did
        not vote in one."""
        earned = self._credits[account.address]
        return min(
            (min(100, earned.get(epoch, 0) * 100 // self._medians[epoch]) for epoch in self.epochs),
            default=100,
        )


def _weights(accounts: Sequence[VoteAccount]) -> Mapping[str, _Weight]:
    total = sum(each.activated_stake for each in accounts)
    # Without those that have no stake at all, which may be any number.
    staked = [each.activated_stake for each in accounts if each.activated_stake] or [0]
    least = Fraction(median_low(staked) * MIN_STAKE_PERCENT, 100)
    weights: dict[str, _Weight] = {}
    held = 0
    for each in sorted(accounts, key=lambda each: (-each.activated_stake, each.address)):
        if held * 3 <= total:
            weights[each.address] = _Weight.SUPERMINORITY
        elif each.activated_stake < least or not each.activated_stake:
            weights[each.address] = _Weight.SMALL
        else:
            weights[each.address] = _Weight.ORDINARY
        held += each.activated_stake
    return weights


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
