"""What is stored, read for the page and kept in memory while no file has changed."""
