"""What decides whether two mathematical answers are equal."""
