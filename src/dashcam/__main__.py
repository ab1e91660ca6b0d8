"""`python -m dashcam` is `dashcam`."""

from dashcam.cli import main

if __name__ == "__main__":
    main()
