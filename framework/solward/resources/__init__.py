"""The interface's declarations: the fields of each resource and request, each declared once.

Every surface derives from here: what a request is read by, the API's description, the client's
classes, commands, forms, the tables of docs/reference/rest.md.
"""
