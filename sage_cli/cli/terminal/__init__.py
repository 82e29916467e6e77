"""Output of commands: tables, progress, plans, errors and JSON."""
