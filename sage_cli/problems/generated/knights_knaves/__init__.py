"""Knights and Knaves: who always tells the truth, who always lies?"""
