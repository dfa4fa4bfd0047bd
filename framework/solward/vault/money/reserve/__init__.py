"""Reserves the maximum that a judged transaction can take, or holds it for a person's decision."""
