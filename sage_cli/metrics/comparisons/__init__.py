"""Models and methods compared: differences, crossings, support, rankings."""
