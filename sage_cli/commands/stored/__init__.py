"""Move and export what is stored."""
