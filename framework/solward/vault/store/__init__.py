"""The rows of the money: each statement on transactions, reservations, holds, grants and wallets."""
