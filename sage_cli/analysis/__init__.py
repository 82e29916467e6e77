"""What stored samples and records tell: one analysis a file, from a `Material` to a `Document`."""
