"""The API's declarations: the fields of each resource and request, each declared once.

Everything else derives from them: the checks of requests, the API's description, the client's
classes, the commands, the forms and the tables of docs/reference/rest.md.
"""
