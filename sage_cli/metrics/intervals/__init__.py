"""Confidence intervals of means, and the sources of their variance."""
