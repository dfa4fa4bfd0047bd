"""Payment protocols: x402 and MPP."""
