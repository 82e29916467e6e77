"""One section of the configuration a file, with its checks."""
