"""A service process: its parts, opened in order, which all its interfaces call."""
