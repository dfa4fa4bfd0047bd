"""`python -m solward_cli` is `solward`."""

from solward_cli import main

if __name__ == "__main__":
    main()
