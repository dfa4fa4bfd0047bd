"""The dashboard: a client of the REST API with a page a resource, in a process of its own."""
