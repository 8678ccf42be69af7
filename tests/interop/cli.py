"""The `levada` command line against the store under test."""

import os
import subprocess

import paths


def levada(url, *words, check=True, user=None, stdin=None, text=True, timeout=300, environment=None, before=()):
    # A server that is down is meant to be down.
    variables = {**os.environ, "LEVADA_URL": url, "LEVADA_PATIENCE": "0s", **(environment or {})}
    if user:
        variables["HADOOP_USER_NAME"] = user
    done = subprocess.run(
        [*before, str(paths.LEVADA), *map(str, words)],
        env=variables,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=text,
        timeout=timeout,
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"levada {' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done


def levada_in(machine, url, *words, **how):
    """On another machine of the test's (networks.py)."""
    return levada(url, *words, before=machine.inside, **how)
