"""Three skills written as a stranger would: they import `solward`'s public surface only."""
