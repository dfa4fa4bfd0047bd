"""Solward over the Model Context Protocol: every skill a tool, wallets and records as resources.

A client of the running service, by `solward.client`; what the service would not do for its caller
is not done here either. `server` makes the MCP server of one caller, `stdio` and `http` carry it.
"""
