"""The pictures of reports; matplotlib is imported when one is drawn."""
