"""The types that plugins and the service share: records, errors, effects, declarations."""
