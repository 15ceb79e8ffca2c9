"""`python -m neumo` is the command `neumo`, for environments whose scripts are not on the path."""

from neumo.cli.main import run

if __name__ == "__main__":
    run()
