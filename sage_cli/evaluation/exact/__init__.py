"""Exact chances: the probabilities of right texts, without sampling."""
