"""Sample sets: parts, index, claims, annotations."""
