"""Commands on stored runs."""
