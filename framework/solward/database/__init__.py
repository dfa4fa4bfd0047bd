"""The database of a process: connections, transactions, locks, tables and their schema."""
