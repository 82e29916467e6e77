"""School word problems with their formulas: read, split, re-drawn with other numbers."""
