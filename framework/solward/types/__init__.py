"""The words that plugin authors and the service share: records, errors, effects, specs."""
