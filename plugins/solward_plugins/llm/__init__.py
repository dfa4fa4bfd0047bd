"""What the built-in language model providers share: one call through litellm, four wire formats."""
