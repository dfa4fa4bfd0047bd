"""The plugins page: what is loaded, settings of skills, and what plugins keep."""
