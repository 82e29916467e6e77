"""Tables, figures and the published numbers."""
