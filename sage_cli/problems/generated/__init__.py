"""Problems that sage makes itself: one folder per generator."""
