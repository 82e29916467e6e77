"""Commands that train, and that show methods and guides."""
