"""The types of the JSON that the page is sent. Keys that `--json` has too mean the same."""
