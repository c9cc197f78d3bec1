#!/usr/bin/env python3
"""Runs the commands of README.md and of the how-to pages, and compares what they print with what the pages show.

  DIVVY=build/divvy tests/docs/commands.py              every page that docs/README.md lists as a tutorial or how-to
  DIVVY=build/divvy tests/docs/commands.py jobs.md      only pages whose path ends so

Each page has its own folder, shell and daemon with eight emulated GPUs, and runs from top to bottom. The folder has a
copy of tests/docs/files and the repository's examples, with stand-ins for programs such as torchrun. The user ada is the one who runs the test;
the processes 4711 and 4712 are the shell and this program.
programs/divvy says how the commands of other machines are run; lib.sh has functions for setup commands.

Code blocks of these languages are run:

  sh        commands; each must end with 0
  console   commands behind "$ ", and the output that they print. A command may fail if its output is shown.

Other blocks are data: text, toml, yaml, json, python. A block without a language is an error, and so is data that looks
like a command. HTML comments before a block, which the rendered page does not show, change how it is run. PREFIX
selects the commands of the block that begin with it; without (PREFIX) a comment applies to all of them:

  <!-- setup: COMMANDS -->           runs the commands first; the comment may have several lines
  <!-- not run (PREFIX): REASON -->  does not run them
  <!-- until output (PREFIX): -->    sends SIGINT after the first output, for commands that do not end
  <!-- in job (PREFIX): OPTIONS -->  runs them in the script of a job with these options
  <!-- input (PREFIX): FILE -->      the commands read this file instead of /dev/null
  <!-- needs (PREFIX): PROGRAM -->   does not run the commands where this program is not installed
  <!-- on terminal (PREFIX): 80 -->  runs them on a terminal of this width
  <!-- file: NAME -->                stores the block in this file instead of running it

Output is compared line by line. "..." stands for any text, and as a line of its own for any lines. White space counts
as one blank. Numbers with a fraction, a unit or at least three digits, times, dates, hexadecimal ids and absolute paths
stand for any others of their kind; small whole numbers must be equal.

DOCS_SHOW=1 prints every command with its output, and DOCS_PAGES_AT_ONCE is the number of pages that run at a time.
"""
import os
import pwd
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
KINDS = ("Tutorials", "How-to guides")  # Headings of docs/README.md.
DATA = {"text", "toml", "yaml", "json", "python"}
PROGRAMS = "divvy|sudo|sbatch|srun|salloc|squeue|sacct|scontrol|scancel|sinfo|gbatch|gqueue|gctl|vh|sqlite3|scripts/"
LOOKS_LIKE_COMMAND = re.compile(rf"^(?:[$#] )?(?:{PROGRAMS})\S* ?(?:[-a-z]|$)", re.MULTILINE)
VERBS = "setup|not run|until output|in job|input|needs|on terminal|file"
COMMENT = re.compile(rf"^ *<!-- ({VERBS})(?: \((.*?)\))?:(.*?)-->", re.DOTALL)
COMMAND_SECONDS = 60
STAND_INS = ("python", "pip", "torchrun", "jupyter", "mpirun", "podman")
PROGRAMS_IN_FOLDER = ("x", "train", "learner", "actor", "both")
USER = pwd.getpwuid(os.getuid()).pw_name


@dataclass
class Command:
    line: int
    text: str
    wanted: list = None  # The lines of output that the page shows, or None.
    notes: dict = field(default_factory=dict)  # Comment -> its text.


class PageError(Exception):
    """A page that cannot be read."""


def pages():
    """README.md and the pages that docs/README.md lists under the headings in KINDS."""
    found, heading = ["README.md"], ""
    for line in (ROOT / "docs/README.md").read_text().split("\n"):
        if line.startswith("## "):
            heading = line[3:].strip()
        page = re.match(r"- \[.*?\]\((\S+?\.md)\)", line)
        if page and heading in KINDS:
            found.append(os.path.normpath("docs/" + page.group(1)))
    return found


def is_complete(text):
    """Whether bash reads the text as whole commands."""
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    return checked.returncode == 0 and not checked.stderr and not text.endswith("\\\n")


def split_commands(language, first_line, lines):
    """The commands of a block, each with the output that follows it."""
    commands, text, start = [], "", 0
    for number, line in enumerate(lines, first_line):
        if language == "console" and not text and not line.startswith("$ "):
            if not commands:
                raise PageError(f"{number}: a console block begins with a command behind '$ '")
            commands[-1].wanted = (commands[-1].wanted or []) + [line]
            continue
        if not text:
            start = number
        text += (line[2:] if language == "console" and line.startswith(("$ ", "> ")) else line) + "\n"
        if is_complete(text):
            if re.search(r"^\s*[^#\s]", text, re.MULTILINE):
                commands.append(Command(start, text))
            text = ""
    if text:
        raise PageError(f"{start}: an incomplete command: {text.strip()}")
    return commands


def read_page(path):
    """Yields the page's setup commands, files and commands in order, as Command and (name, content)."""
    lines = (ROOT / path).read_text().split("\n")
    notes, index = [], 0
    while index < len(lines):
        line = lines[index]
        if line.strip().startswith("<!-- "):
            begin = index
            while "-->" not in lines[index]:
                index += 1
            comment = COMMENT.match("\n".join(lines[begin:index + 1]))
            if comment and comment.group(1) == "setup":
                yield Command(begin + 1, comment.group(3).strip() + "\n", notes={"setup": ""})
            elif comment:
                notes.append((comment.group(1), comment.group(2) or "", comment.group(3).strip()))
        elif fence := re.match(r"( *)```(.*)", line):
            begin, indent = index + 1, len(fence.group(1))
            index = begin
            while not lines[index].startswith(fence.group(1) + "```"):
                index += 1
            block = [text[indent:] for text in lines[begin:index]]
            yield from read_block(begin, fence.group(2).strip(), block, notes)
            notes = []
        elif notes and line.strip():
            raise PageError(f"{index + 1}: a comment '{notes[-1][0]}' without a code block directly below it")
        index += 1


def read_block(fence_line, language, block, notes):
    content = "\n".join(block) + "\n"
    files = [text for verb, _, text in notes if verb == "file"]
    if files:
        yield files[0], content
    elif language in ("sh", "console"):
        commands = split_commands(language, fence_line + 1, block)
        for verb, prefix, text in notes:
            chosen = [command for command in commands if command.text.startswith(prefix)]
            if not chosen:
                raise PageError(f"{fence_line}: no command begins with '{prefix}'")
            for command in chosen:
                command.notes[verb] = text
        yield from commands
    elif language not in DATA:
        raise PageError(f"{fence_line}: the language of this block is '{language}': expected sh or console for "
                        f"commands, or {', '.join(sorted(DATA))}")
    elif LOOKS_LIKE_COMMAND.search(content) and not notes:
        raise PageError(f"{fence_line}: a block of {language} contains a command: use sh or console")


NUMBER = r"\d+(?:[.,:]\d+)*"
UNIT = r"(?:%|ms|s|sec|min|h|d|days?|hours?|[KMGT](?:i?B)?|MHz|W|C|GPU-h)(?![\w/])"
TOLERATED = [
    (re.compile(r"(?<![\w.])/[^\s'\",;:)]+"), "/PATH"),
    (re.compile(r"\b(?:\w+[-_])?(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"), "TIME"),
    (re.compile(rf"\b(?:{NUMBER}(?:/{NUMBER})? ?{UNIT} ?)+"), "N "),
    (re.compile(rf"\b(?:\d+[.,:]\d[\d.,:]*|\d{{3,}})"), "N "),
]


def comparable(line):
    """The line with what may differ replaced by names."""
    line = re.sub(rf"\b{re.escape(USER)}\b", "ada", line)
    for pattern, name in TOLERATED:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def matches(wanted, got):
    """Whether the lines that a command printed are those that the page shows."""
    pattern = ""
    for line in wanted:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(comparable(part)) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, "".join(comparable(line) + "\n" for line in got)) is not None


def free_port():
    """A port below those that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class PageShell:
    """A shell in a folder of its own, with a daemon of its own, which runs one command after the other."""

    def __init__(self, divvy):
        self.folder = Path(tempfile.mkdtemp(prefix="docs."))
        shutil.copytree(HERE / "files", self.folder / "work")
        (self.folder / "work/examples").symlink_to(ROOT / "examples")
        for name in ("bin", "tmp", "home"):
            (self.folder / name).mkdir()
        for name in STAND_INS:
            (self.folder / "bin" / name).symlink_to(HERE / "programs/stand_in")
        for name in PROGRAMS_IN_FOLDER:
            (self.folder / "work" / name).symlink_to(HERE / "programs/stand_in")
        (self.folder / "port").write_text(str(free_port()))
        environment = {name: value for name, value in os.environ.items()
                       if not re.match(r"(DIVVY|SLURM|SBATCH|SQUEUE|SACCT|GFLOW|VH|CUDA|XDG)_|DIVVY$|DISPLAY$", name)}
        environment.update(
            PATH=f"{HERE}/programs:{self.folder}/bin:{divvy.parent}:{environment['PATH']}", LC_ALL="C.UTF-8",
            HOME=f"{self.folder}/home", DIVVY_HOME=f"{self.folder}/divvy", TMPDIR=f"{self.folder}/tmp", TZ="UTC",
            NO_COLOR="1", DOCS_PAGE=str(self.folder), DOCS_DIVVY=str(divvy), PYTHONPATH=f"{ROOT}/clients/python",
            PYTHONDONTWRITEBYTECODE="1")
        self.status, status_out = os.pipe()
        self.shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd=self.folder / "work", env=environment, pass_fds=[status_out],
            start_new_session=True, text=True)
        self.status_out = status_out
        library = shlex.quote(str(HERE / "lib.sh"))
        status, lines = self.run(f". {library} && divvy shims {self.folder}/bin && divvy up --quiet\n")
        if status != 0:
            self.close()
            raise PageError("1: the page's daemon did not start: " + "\n".join(lines))

    def run(self, text, source="/dev/null"):
        """Runs the commands in the shell. Returns their exit status (None: no end) and the lines printed."""
        script, output = self.folder / "command", self.folder / "output"
        text = re.sub(r"(?<![/\w])ada\b(?![/@])", USER, text)
        text = re.sub(r"\b4711\b", str(self.shell.pid), re.sub(r"\b4712\b", str(os.getpid()), text))
        script.write_text(text)
        self.shell.stdin.write(f". {script} <{shlex.quote(source)} >{output} 2>&1; echo $? >&{self.status_out}\n")
        self.shell.stdin.flush()
        status = None
        if select.select([self.status], [], [], COMMAND_SECONDS)[0]:
            status = int(os.read(self.status, 16).split()[0])
        lines = output.read_text(errors="replace").split("\n") if output.exists() else [""]
        return status, lines[:-1] if lines[-1] == "" else lines

    def close(self):
        """Ends the page's jobs, daemons and agents, and removes its folder."""
        if self.run("clean_up\n")[0] is None:
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.stdin.close()
        self.shell.wait()
        deadline = time.monotonic() + COMMAND_SECONDS
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        os.close(self.status)
        os.close(self.status_out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        """The processes with this page's folder in their environment."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if f"{self.folder}/".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found


def run_page(path, divvy):
    """Returns the failures, the number of commands that ran, a Counter of reasons for the others, and the seconds."""
    failures, ran, not_run = [], 0, Counter()
    begin = time.monotonic()
    try:
        steps = list(read_page(path))
    except PageError as error:
        return [f"{path}:{error}"], 0, not_run, 0
    if not any(isinstance(step, Command) and "not run" not in step.notes for step in steps):
        return [], 0, Counter(step.notes["not run"] for step in steps if isinstance(step, Command)), 0
    try:
        page = PageShell(divvy)
    except PageError as error:
        return [f"{path}:{error}"], 0, not_run, 0
    try:
        for step in steps:
            if not isinstance(step, Command):
                name, content = step
                (page.folder / "work" / name).write_text(content)
                (page.folder / "work" / name).chmod(0o755)
                continue
            if "needs" in step.notes and not shutil.which(step.notes["needs"]):
                step.notes["not run"] = step.notes["needs"] + " is not installed"
            if "not run" in step.notes:
                not_run[step.notes["not run"]] += 1
                continue
            text = step.text
            if "until output" in step.notes:
                text = f"until_output {shlex.quote(text)}\n"
            if "on terminal" in step.notes:
                text = f"on_terminal {step.notes['on terminal']} {shlex.quote(text)}\n"
            if "in job" in step.notes:
                text = f"in_job {shlex.quote(step.notes['in job'])} {shlex.quote(text)}\n"
            before = time.monotonic()
            source = page.folder / "work" / step.notes["input"] if "input" in step.notes else "/dev/null"
            status, got = page.run(text, str(source))
            ran += "setup" not in step.notes
            if os.environ.get("DOCS_SHOW"):
                seconds = f"{time.monotonic() - before:.1f} s"
                print(f"--- {path}:{step.line}: [{status}, {seconds}] {step.text.strip()}", *got, sep="\n", flush=True)
            is_status_right = status == 0 or (step.wanted is not None and status is not None)
            if is_status_right and (step.wanted is None or matches(step.wanted, got)):
                continue
            expected = "\n".join(step.wanted) if step.wanted else "exit status 0"
            ended = f"no end within {COMMAND_SECONDS} s" if status is None else f"exit status {status}"
            failures.append("\n".join([f"{path}:{step.line}: {step.text.strip()}", "--- expected:", expected,
                                       f"--- got ({ended}):", *got[:40]]))
            if status is None:
                break
    finally:
        page.close()
    return failures, ran, not_run, time.monotonic() - begin


def main():
    divvy = Path(os.environ.get("DIVVY", ROOT / "build/divvy")).resolve()
    if not divvy.exists():
        sys.exit(f"there is no program {divvy}: build it, or set DIVVY to its path")
    chosen = [page for page in pages() if not sys.argv[1:] or page.endswith(tuple(sys.argv[1:]))]
    total, not_run, failed = 0, Counter(), 0
    with ThreadPoolExecutor(int(os.environ.get("DOCS_PAGES_AT_ONCE", "4"))) as pool:
        for path, result in zip(chosen, pool.map(lambda page: run_page(page, divvy), chosen)):
            failures, ran, reasons, seconds = result
            print(f"{path}: {ran} commands ran, {sum(reasons.values())} not run, {seconds:.1f} s", flush=True)
            for failure in failures:
                print(f"\nFAILED {failure}\n", flush=True)
            total, failed, not_run = total + ran, failed + len(failures), not_run + reasons
    print(f"\n{total} commands ran, {sum(not_run.values())} were not run, {failed} failed.")
    for reason, count in not_run.most_common():
        print(f"  not run, {reason}: {count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
