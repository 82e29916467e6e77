"""pass@k, intervals and paired comparison; numpy only."""
