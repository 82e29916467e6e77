"""What is trained and measured: trials, the tasks that make them, and the queue of tasks."""
