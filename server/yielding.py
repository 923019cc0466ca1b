"""Threads that compute let threads that answer run first, where the system can tell them apart.

Knows no engine and no requests.
"""

import os
import sys
import threading

_NICE = 10
"""Steps of courtesy: a core that both want goes to the one that answers three times out of four."""


def give_way() -> None:
    """Has the calling thread, and those that it will begin, run behind the process' other threads.

    Only Linux has such threads; elsewhere this does nothing.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)
