"""The rows of the money: statements on transactions, reservations, holds, grants and wallets."""
