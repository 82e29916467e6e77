"""Who decides: one judge per kind of answer, by name."""
