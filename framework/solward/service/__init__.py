"""One process: its parts opened in order, and what all its interfaces call."""
