"""Estimates of memory and GPU hours before anything runs. No tensor library."""
