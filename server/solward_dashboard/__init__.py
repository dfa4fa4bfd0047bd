"""The dashboard: a client of the REST API with a page for each resource, in its own process."""
