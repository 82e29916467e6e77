"""What commands print: tables, progress, plans, errors and JSON."""
