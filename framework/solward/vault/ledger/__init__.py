"""The ledger protocol, and the clients that speak it to RPC nodes."""
