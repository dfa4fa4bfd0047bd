"""Solward over the Model Context Protocol: every skill a tool, wallets and records as resources.

It calls the running service through `solward.client`, with no more rights than its caller.
`server` is the MCP server of one caller; `stdio` and `http` are its transports.
"""
