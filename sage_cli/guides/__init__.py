"""The guide q(x, y): none, random, token, branch."""
