"""Archives of runs and their samples."""
