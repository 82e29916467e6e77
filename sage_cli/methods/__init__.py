"""One file a method: its settings, its source, what it excludes, its formula and its hooks."""
