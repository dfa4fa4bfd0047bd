"""The embedded ledger: LiteSVM with Solana's JSON-RPC, in process or on a port, kept in a file."""
