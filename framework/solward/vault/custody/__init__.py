"""Custody of private keys, and the wallets that use them."""

from solward.vault.custody.keyring import KeySource
from solward.vault.custody.model import Pocket, Wallet
from solward.vault.custody.service import MOST_OF_A_KEY, Signer, Wallets

__all__ = ["MOST_OF_A_KEY", "KeySource", "Pocket", "Signer", "Wallet", "Wallets"]
