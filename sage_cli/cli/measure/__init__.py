"""Commands that sample, grade, count and compare."""
