"""The report of a comparison of two sides."""
