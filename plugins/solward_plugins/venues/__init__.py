"""The built-in swap venues, one module a venue."""
