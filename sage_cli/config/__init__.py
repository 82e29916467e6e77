"""The one configuration schema, its layers and where each value came from."""
