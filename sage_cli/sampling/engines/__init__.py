"""vLLM's engine, and several engines in processes."""
