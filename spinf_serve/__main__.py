"""`python -m spinf_serve` is the `spinf-serve` command."""

from spinf_serve.cli import main

if __name__ == "__main__":
    main()
