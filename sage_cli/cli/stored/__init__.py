"""Commands on stored runs, archives and reports."""
