"""Runs a pickled function inside a job, and stores its result. The job's command is: python _runner.py FOLDER.

The file imports nothing of the package, because a job starts it by its path. The submitting side shares its checks:
a pickle is read only from a folder that no other user can write to, because reading a pickle runs code.
"""

from __future__ import annotations

import grp
import io
import os
import pickle
import pwd
import secrets
import stat
import sys
import traceback
import types
from typing import Any, Optional, TextIO, Tuple

CALL = "call.pkl"
MAIN = "__divvy_main__"  # The name under which a job imports the script that submitted it.


class UnsafeFolder(Exception):
    """Another user could replace the files of this folder."""


def result_name(index: int) -> str:
    return f"result-{index}.pkl"


def _is_own_group(gid: int) -> bool:
    """Whether the group is one that many systems create for each user, with that user's name and no other member."""
    try:
        name, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}


def check_owner(path: str, about: os.stat_result, is_ancestor: bool) -> None:
    own = os.geteuid()
    if about.st_uid != own and not (is_ancestor and about.st_uid == 0):
        raise UnsafeFolder(f"{path} belongs to user {about.st_uid}, not to you ({own}); choose another folder")
    # In a sticky folder such as /tmp, other users cannot replace what is not theirs.
    if is_ancestor and about.st_mode & stat.S_ISVTX:
        return
    if about.st_mode & stat.S_IWOTH or (about.st_mode & stat.S_IWGRP and not _is_own_group(about.st_gid)):
        raise UnsafeFolder(f"other users can write to {path}; run: chmod go-w {path}")


def open_folder(path: str) -> int:
    """Opens a folder of call or result files. Raises UnsafeFolder if another user can write to it or above it."""
    path = os.path.realpath(path)
    parent = os.path.dirname(path)
    while True:
        check_owner(parent, os.stat(parent), True)
        if parent == "/":
            break
        parent = os.path.dirname(parent)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        check_owner(path, os.fstat(descriptor), False)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(folder: int, name: str) -> bytes:
    """Reads a file of a folder that open_folder() opened."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise UnsafeFolder(f"{name} is not a regular file")
        check_owner(name, about, False)
        return file.read()


def write_file(folder: int, name: str, content: bytes) -> None:
    """Writes or replaces a file in one step, readable by its owner only."""
    fresh = f".{name}.{secrets.token_hex(8)}"  # Jobs of several machines have the same process ids.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(fresh, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(fresh, dir_fd=folder)
        raise


def dump(value: Any) -> bytes:
    """Pickles with cloudpickle if it is installed, which also accepts lambdas and functions of a notebook."""
    try:
        import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return pickle.dumps(value)
    content: bytes = cloudpickle.dumps(value)
    return content


class Unpickler(pickle.Unpickler):
    """Finds what the submitting script defined in its __main__, on both sides."""

    def __init__(self, content: bytes, main: Optional[Tuple[str, str]] = None) -> None:
        super().__init__(io.BytesIO(content))
        self._main = main

    def find_class(self, module: str, name: str) -> Any:
        if module in (MAIN, "__main__"):
            if self._main is not None and MAIN not in sys.modules:
                _import_main(*self._main)
            module = MAIN if MAIN in sys.modules else "__main__"
        return super().find_class(module, name)


def _import_main(kind: str, name: str) -> None:
    """Imports the submitting script under another name, so that its `if __name__ == "__main__":` part does not run."""
    import runpy

    main = types.ModuleType(MAIN)
    sys.modules[MAIN] = main
    content = (runpy.run_module if kind == "module" else runpy.run_path)(name, run_name=MAIN)
    main.__dict__.update(content)
    main.__dict__["divvy_is_ready"] = True
    sys.modules[MAIN] = sys.modules["__main__"] = main


def is_importing_main() -> bool:
    return MAIN in sys.modules and "divvy_is_ready" not in sys.modules[MAIN].__dict__


def _run(folder: int, index: int) -> Tuple[bool, Any, str]:
    """Returns whether the function returned, what it returned or raised, and the text of a traceback."""
    try:
        call = pickle.loads(read_file(folder, CALL))
        sys.path[:] = call["path"]
        sys.argv[:] = call["argv"]
        function, arguments = Unpickler(call["function"], call["main"]).load()
        args, kwargs = arguments[index]
        return True, function(*args, **kwargs), ""
    except BaseException as error:  # pylint: disable=broad-except
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return True, None, ""
        frames = traceback.extract_tb(error.__traceback__)
        while len(frames) > 1 and frames[0].filename == __file__:
            del frames[0]
        text = "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames))
        text += "".join(traceback.format_exception_only(type(error), error))
        return False, error.with_traceback(None), text


def _say(file: TextIO, text: str) -> None:
    """Writes and flushes, unless the function has closed the file or its disk is full: the result counts."""
    try:
        file.write(text)
        file.flush()
    except (AttributeError, OSError, ValueError):
        pass


def main(path: str) -> int:
    index = int(os.environ.get("DIVVY_ARRAY_INDEX") or 0)
    folder = open_folder(path)
    try:  # An earlier run of this job may have left a result.
        os.unlink(result_name(index), dir_fd=folder)
    except FileNotFoundError:
        pass
    returned, value, text = _run(folder, index)
    _say(sys.stdout, "")
    if not returned:
        _say(sys.stderr, text)
    pickled: Optional[bytes] = None
    try:
        pickled = dump(value)
    except Exception as error:  # pylint: disable=broad-except
        reason = f"{type(error).__name__}: {error}"
        if returned:
            text = f"the function returned a {type(value).__name__}, which cannot be pickled ({reason})"
            _say(sys.stderr, f"divvy: {text}\n")
        returned = False
    # The value is pickled on its own, so that the traceback can be read where the value cannot.
    write_file(folder, result_name(index), pickle.dumps((returned, pickled, text)))
    return 0 if returned else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
