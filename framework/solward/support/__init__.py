"""General helpers, such as JSON text, the clock, files and the environment of child processes."""
