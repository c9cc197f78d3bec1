"""Folders with pickled function calls and their results, which jobs and their submitters share.

Each submission has a folder of its own below the user's data folder, with access for the user only. The nodes must see
the same path: with several nodes the folder is on a file system that they share, as home directories usually are.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import shutil
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _runner
from ._errors import InvalidRequest, PermissionDenied, RemoteTraceback, ResultUnavailable

KEPT_DAYS = 30
_FOLDER = re.compile("[0-9a-f]{16}")
# The last form is that of a file that is being written.
_FILE = re.compile(r"call\.pkl|result-[0-9]+\.pkl|\.(call|result-[0-9]+)\.pkl\.[0-9a-f]+")
Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]


def default_folder() -> str:
    data = os.environ.get("XDG_DATA_HOME", "")
    return (data if data.startswith("/") else os.path.expanduser("~/.local/share")) + "/divvy/calls"


def _main_module() -> Optional[Tuple[str, str]]:
    """How a job can import this process's __main__; None for a notebook or an interactive session."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return "module", spec.name
    path = getattr(main, "__file__", None)
    return ("path", os.path.abspath(path)) if path and os.path.isfile(path) else None


def _pickle_call(function: Callable[..., Any], arguments: Sequence[Arguments]) -> bytes:
    name = getattr(function, "__qualname__", repr(function))
    main = _main_module()
    try:
        content = _runner.dump((function, list(arguments)))
        has_cloudpickle = "cloudpickle" in sys.modules
        if not has_cloudpickle and main is None and b"__main__" in content:
            raise pickle.PicklingError("it is defined in an interactive session")
    except Exception as error:
        raise InvalidRequest(
            f"cannot pickle the call of {name}: {error}; define the function and the classes of its arguments at the "
            "top level of a file, or install cloudpickle (pip install cloudpickle)"
        ) from error
    call = {"function": content, "main": main, "path": [os.path.abspath(p) for p in sys.path], "argv": sys.argv[:1]}
    return pickle.dumps(call)


class CallFolder:
    """The files of one submission."""

    def __init__(self, path: str) -> None:
        self.path = path

    @staticmethod
    def create(parent: str, function: Callable[..., Any], arguments: Sequence[Arguments]) -> CallFolder:
        """Stores a call. Raises InvalidRequest if it cannot be pickled, PermissionDenied if the folder is not safe."""
        if _runner.is_importing_main():
            raise InvalidRequest(
                "the script submits jobs while a job imports it; put the code that submits below "
                'if __name__ == "__main__":'
            )
        content = _pickle_call(function, arguments)
        os.makedirs(parent, mode=0o700, exist_ok=True)
        folder = CallFolder(os.path.join(os.path.realpath(parent), secrets.token_hex(8)))
        try:
            os.close(_runner.open_folder(parent))
            os.mkdir(folder.path, 0o700)
            descriptor = _runner.open_folder(folder.path)
        except (_runner.UnsafeFolder, OSError) as error:
            raise PermissionDenied(f"cannot store the call: {error}") from error
        try:
            _runner.write_file(descriptor, _runner.CALL, content)
        except BaseException:
            folder.remove()
            raise
        finally:
            os.close(descriptor)
        return folder

    def command(self) -> List[str]:
        return [sys.executable or "python3", os.path.abspath(_runner.__file__), self.path]

    @staticmethod
    def of_command(words: Sequence[str]) -> Optional[CallFolder]:
        """Returns the folder that a job's command names, or None if the job runs no function of this package."""
        is_call = len(words) == 3 and os.path.basename(words[1]) == "_runner.py" and "/divvy/" in words[1]
        return CallFolder(words[2]) if is_call else None

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def result(self, index: int, has_succeeded: bool) -> Any:
        """Returns what the function returned, or raises what it raised.

        Raises ResultUnavailable if there is no result, and PermissionDenied, without reading it, if another user could
        have written it.
        """
        try:
            descriptor = _runner.open_folder(self.path)
            try:
                content = _runner.read_file(descriptor, _runner.result_name(index))
            finally:
                os.close(descriptor)
        except _runner.UnsafeFolder as error:
            raise PermissionDenied(f"the result is not read: {error}") from error
        except OSError as error:
            raise ResultUnavailable(
                f"the result cannot be read from {self.path} ({error.strerror}); this machine and the job's node must "
                "share that folder"
            ) from error
        try:
            returned, pickled, text = pickle.loads(content)
        except Exception as error:
            raise ResultUnavailable(f"the result cannot be unpickled here: {error}") from error
        if pickled is None:
            raise ResultUnavailable(text)
        try:
            value = _runner.Unpickler(pickled).load()
        except Exception as error:
            cause = RemoteTraceback(text) if text else error
            raise ResultUnavailable(f"the result cannot be unpickled here: {error}") from cause
        if returned:
            if has_succeeded:
                return value
            raise ResultUnavailable("the function returned, but its job did not succeed")
        raise value from RemoteTraceback(text)


def remove_old(parent: str) -> None:
    """Removes folders whose results are older than KEPT_DAYS. Errors are ignored: another process may do the same.

    The user may have chosen a folder with other files, so whatever create() did not make stays.
    """
    oldest = time.time() - KEPT_DAYS * 86400
    try:
        os.close(_runner.open_folder(parent))
        entries = list(os.scandir(os.path.realpath(parent)))
    except (_runner.UnsafeFolder, OSError):
        return
    for entry in entries:
        try:
            is_call = _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            if is_call and _is_older(list(os.scandir(entry.path)), oldest):
                shutil.rmtree(entry.path, ignore_errors=True)
        except OSError:
            continue


def _is_older(files: Sequence[os.DirEntry[str]], oldest: float) -> bool:
    """Whether these are the files of one submission, with results from before `oldest` only."""
    if not all(_FILE.fullmatch(file.name) and file.is_file(follow_symlinks=False) for file in files):
        return False
    results = [file.stat(follow_symlinks=False).st_mtime for file in files if "result-" in file.name]
    return bool(results) and max(results) < oldest
