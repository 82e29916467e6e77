"""One file per command: what happens between a configuration and a result."""
