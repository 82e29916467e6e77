"""The page as files."""
