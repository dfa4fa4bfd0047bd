"""Built-in providers, one module each."""
