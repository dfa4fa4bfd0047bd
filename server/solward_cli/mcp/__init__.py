"""`solward mcp`, and the configuration of the hosts that start it."""
