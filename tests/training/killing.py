"""A training that is killed with SIGKILL again and again, run as a script: fork, kill, resume, until it is complete.

    killing.py random FOLDER ARGUMENTS     killed after a random time, a given number of times
    killing.py counted FOLDER ARGUMENTS    killed before the first, second, third, .. change of a file

FOLDER/whole is trained without a kill, FOLDER/killed with them. The parent only imports, so that a fork has no
threads to lose. benchmarks/faults.py uses `attempt` for runs of its own.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback

import accelerate  # noqa: F401
import torch._dynamo  # noqa: F401


def attempt(work, *, seconds=None, changes=None):
    """Run `work` in a child process until it is complete or killed; True if complete."""
    child = os.fork()
    if not child:
        if changes is not None:
            die_at_change(changes)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0, "the training failed"
    return True


def die_at_change(number):
    left = number

    def dying(real):
        def call(*args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for module, name in ((os, "replace"), (os, "rename"), (os, "unlink"), (os, "mkdir"), (shutil, "rmtree")):
        setattr(module, name, dying(getattr(module, name)))


def main(mode, folder, arguments):
    import toy

    killed, chance = 0, random.Random(0)
    assert attempt(lambda: toy.main(f"{folder}/whole", arguments))

    def work():
        toy.main(f"{folder}/killed", arguments)

    while True:
        if mode == "counted":
            complete = attempt(work, changes=killed + 1)
        else:
            seconds = chance.uniform(0.0, arguments["longest"]) if killed < arguments["kills"] else None
            complete = attempt(work, seconds=seconds)
        if complete:
            sys.stdout.write(f"{killed}\n")
            return
        killed += 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
