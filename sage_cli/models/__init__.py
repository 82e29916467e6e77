"""Models and tokenizers: loading, adapters, the tiny from-scratch model."""
