"""Two-digit multiplication, the problems of the `tiny` preset."""
