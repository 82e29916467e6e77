"""The decoding loop on transformers models."""
