"""The design of a measurement: its precision and its power."""
