"""Commands on stored runs and reports."""
