"""The SQL statements on transactions, reservations, holds, grants, pockets and wallets."""
