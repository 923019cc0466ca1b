"""Ends with 0 when the server in this container lives, else with 1 and what it said.

For the HEALTHCHECK of the image. The answer needs no token.
"""

import os
import sys
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

_SECONDS = 5


def main() -> None:
    """Asks the port that the server was given."""
    url = f"http://127.0.0.1:{os.environ.get('SPINF_PORT', '8000')}/livez"
    # A proxy for the outside has no way to this container's own address.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=_SECONDS) as answer:
            print(answer.read().decode())
    except (OSError, URLError) as fault:
        sys.exit(f"{url}: {fault}")


if __name__ == "__main__":
    main()
