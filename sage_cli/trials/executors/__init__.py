"""Executors of commands: this machine, Ray or Slurm, one file each behind one contract."""
