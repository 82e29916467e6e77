"""A suite registered before its first run: what was decided, departures from it, verification."""
