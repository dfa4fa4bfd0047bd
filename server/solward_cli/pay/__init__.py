"""`solward pay`: requests over HTTP that a wallet pays for."""
