"""How a program ends: not below the threads that read for it.

    pyarrow's thread   read ── waits, without the GIL ──▶ wants the GIL back: Python has ended, and kills it. Its frames
    main thread        … ends ▶ [ waits here ] ▶ Python ends                  of C++ make that the end of the process

Tools that read ahead have such threads, and a program may end before they have. So the package waits at exit until
nobody is inside of a call for a moment.
"""

from __future__ import annotations

import atexit
import os
import time

from levada import _levada

# Who reads for longer, or for ever, is not waited for.
WAIT_S_MAX = 2.0
# How often it is looked.
_POLL_S = 0.005
# In so many looks in a row nobody was inside: threads that came out have done what they do with the answer.
_QUIET_COUNT = 3


def _wait_for_readers(process: int) -> None:
    """Returns when nobody is inside of a call, or after two seconds."""
    before = _levada.waits()
    # A child that was forked has none of its parent's threads, and all that they have counted.
    if not before[0] or os.getpid() != process:
        return
    given_up = time.monotonic() + WAIT_S_MAX
    quiet_count = 0
    while quiet_count < _QUIET_COUNT and time.monotonic() < given_up:
        time.sleep(_POLL_S)
        begun, ended = now = _levada.waits()
        quiet_count = quiet_count + 1 if begun == ended and now == before else 0
        before = now


# Before what others register, so after what they do at exit.
atexit.register(_wait_for_readers, os.getpid())
