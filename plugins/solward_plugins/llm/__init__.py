"""Shared code of the built-in language model providers: one call through litellm, four vendors."""
