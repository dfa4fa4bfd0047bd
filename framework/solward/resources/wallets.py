"""Wallets and their stakes."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Self

from solward.resources import examples
from solward.resources.answers import Answer, Raw, answer_of
from solward.resources.declare import declared, resource
from solward.resources.fields import Address, Amount, Choice, Flag, Id, Text, Texts, Time


@resource
class Wallet(Answer):
    """A wallet; `address` is its base58 public key."""

    id: str = declared(Id("The wallet.", example=examples.WALLET))
    name: str = declared(Text("For people."))
    address: str = declared(Address("Its address."), named="publicKey")
    created_at: datetime = declared(Time("When it was made."))
    tags: tuple[str, ...] = declared(Texts("In the order they were given.", each="A tag."))
    created_by: str | None = declared(
        Text("The principal that made it, where that was asked for."), default=None, nullable=True
    )

    @classmethod
    def created(cls, raw: Raw, tags: tuple[str, ...]) -> Self:
        """From the answer to its creation, which names fields otherwise and leaves out tags."""
        return answer_of(cls, raw, id=raw["walletId"], address=raw["address"], tags=tags)


@resource
class Stake(Answer):
    """A stake account in an API answer, with its SOL (`solward.Stake` is read from the ledger)."""

    address: str = declared(Address("The stake account."))
    balance: Decimal = declared(Amount("SOL, rent included."))
    state: str = declared(
        Choice("Activation.", options=("activating", "active", "deactivating", "inactive"))
    )
    locked: bool = declared(
        Flag("A lockup forbids to withdraw it, inactive or not.", const=True), default=False
    )

    @property
    def can_be_withdrawn(self) -> bool:
        """Whether all it holds can come back to the wallet now."""
        return self.state == "inactive" and not self.locked

    @property
    def shown_state(self) -> str:
        """The state, and whether it is locked."""
        return f"{self.state}, locked" if self.locked else self.state
