"""Entry point of the demo: Ctrl-C ends it with one line, also while it is still being imported."""

import sys


def main() -> None:
    """Run the demo."""
    try:
        from demo.show import show

        show()
    except KeyboardInterrupt:
        sys.stdout.write("\nStopped before it began.\n")


if __name__ == "__main__":
    main()
