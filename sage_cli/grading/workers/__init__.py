"""Processes that judge untrusted answers and can be killed."""
