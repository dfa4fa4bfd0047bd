"""The money path: from a request to a settled transaction."""
