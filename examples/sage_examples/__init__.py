"""Extensions of sage, one file each."""
