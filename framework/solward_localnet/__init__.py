"""The embedded ledger: LiteSVM behind Solana JSON-RPC, persisted, in process or on a port."""
