"""Key custody and the wallets on it."""

from solward.vault.wallets.keyring import KeySource
from solward.vault.wallets.model import Wallet
from solward.vault.wallets.pockets import Pocket
from solward.vault.wallets.service import MOST_OF_A_KEY, Signer, Wallets

__all__ = ["MOST_OF_A_KEY", "KeySource", "Pocket", "Signer", "Wallet", "Wallets"]
