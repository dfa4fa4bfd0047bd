"""Reserves what a judged transaction can take, and holds it where a person decides."""
