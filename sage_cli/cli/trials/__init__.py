"""Commands on sweeps and suites."""
