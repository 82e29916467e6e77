"""Where a task runs: this machine, Ray or Slurm, one file each behind one contract."""
