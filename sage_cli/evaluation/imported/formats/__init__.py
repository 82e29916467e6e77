"""Files of other programs, one module each."""
