"""SFT and RL on TRL."""
