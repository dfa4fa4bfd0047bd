"""Small parts without a domain: JSON text, clock, files, the environment of child processes."""
