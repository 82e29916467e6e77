"""`python -m sage_cli`: the command line, as launchers start it."""

from sage_cli.cli.app import main

if __name__ == "__main__":
    main()
