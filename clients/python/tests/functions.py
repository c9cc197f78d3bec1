"""Functions that jobs of the tests run."""

import os
import signal
import subprocess
import sys
import time


class Unfit(Exception):
    """An exception of the user's own."""

    def __init__(self, text, number):
        super().__init__(text, number)
        self.number = number


def add(a, b=0, name="none"):
    print(f"adds {a} and {b} for {name}")
    return a + b


def fail(number):
    raise Unfit("does not fit", number)


def unpicklable():
    return lambda: 1


class OneWay(Exception):
    """An exception that can be pickled, but not unpickled."""

    def __init__(self, text, number):
        super().__init__(f"{text} {number}")


def fail_one_way():
    raise OneWay("does not come back", 7)


def close_outputs():
    sys.stdout.close()
    sys.stderr.close()
    return 5


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def environment(name):
    return os.environ.get(name)


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def report_all():
    import divvy

    said = divvy.report(step=10, loss=0.25), divvy.progress(3, of=4)
    return said, divvy.job_id()


def take_part(path):
    """Takes and gives back GPUs until it has three. Writes their number to the file `path`."""
    import divvy

    def note():
        with open(path + "~", "w") as file:
            file.write(str(len(elastic.gpus)))
        os.replace(path + "~", path)

    with divvy.Elastic() as elastic:
        note()
        while len(elastic.gpus) != 3:
            while not elastic.should_checkpoint():
                time.sleep(0.02)
            assert elastic.checkpoint()
            assert os.environ["CUDA_VISIBLE_DEVICES"] == elastic.visible_devices
            note()


def python_of_child():
    return subprocess.run([sys.executable, "-c", "print(6 * 7)"], stdout=subprocess.PIPE, check=True).stdout
