"""Key custody and the wallets on it."""

from solward.wallets.keyring import KeySource
from solward.wallets.model import Wallet
from solward.wallets.service import Wallets
from solward.wallets.signer import Signer

__all__ = ["KeySource", "Signer", "Wallet", "Wallets"]
