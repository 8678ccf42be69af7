"""Errors of the operating system's kinds, as tools of Python expect them."""

from __future__ import annotations

import os


def os_error(number: int, path: str) -> OSError:
    """Of the class that Python has for the number."""
    return OSError(number, os.strerror(number), path)
