"""The client of a cluster, beside a driver."""

from ._bridge import main

if __name__ == "__main__":
    main()
