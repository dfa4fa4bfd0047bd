"""The database of a process, and the tables of the money."""
