"""The parts that the OpenAPI document is built from; each resource describes its own routes."""
