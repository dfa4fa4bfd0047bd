"""Key custody and the wallets on it."""

from solward.vault.wallets.keyring import KeySource
from solward.vault.wallets.model import Wallet
from solward.vault.wallets.pockets import Pocket
from solward.vault.wallets.service import Signer, Wallets

__all__ = ["KeySource", "Pocket", "Signer", "Wallet", "Wallets"]
