"""The answers of the page, a file for each topic."""
