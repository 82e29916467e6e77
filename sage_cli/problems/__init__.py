"""Questions with gold answers, and the text around them."""
