"""What work will need before it runs: memory of a card, hours of GPUs. No tensor library."""
