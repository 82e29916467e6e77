"""`sage view`: a local page on what is stored, live while it grows."""
