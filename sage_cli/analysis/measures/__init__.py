"""The analyses, one a file: a pure function from `Inputs` to a `Document`."""
