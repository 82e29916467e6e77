"""Tables, their text formats, and the published numbers."""
