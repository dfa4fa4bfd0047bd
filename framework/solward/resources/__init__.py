"""What the interface speaks of, declared once: each resource's fields, and each request's.

Every surface derives from here: what a request is read by, the API's description, the client's
classes, commands, forms, the tables of docs/reference/rest.md.
"""
