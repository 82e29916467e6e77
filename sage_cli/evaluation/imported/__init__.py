"""Samples that other programs took: read, checked, and stored like a run's own."""
