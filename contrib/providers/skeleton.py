"""What the providers of nodes in this folder share (docs/providers.md has the protocol).

A provider is a class with `nodes`, `launch` and `remove`. This module reads the order, finds the node of a token before
another one is created, and prints the answer. Secrets (the join line, API keys) never become arguments of a process:
programs read them from their standard input.
"""
import http.client
import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request

OWN_OPTIONS = ("--divvy-path", "--divvy-setup", "--divvy-user", "--divvy-emulate")
# A request whose answer was lost takes effect within this time, or not at all.
UNSURE_S = 120


class Failure(Exception):
    """Its text is the reason that administrators see."""


class Rejected(Failure):
    """The provider has refused a request, so that it has no effect."""


class Provider:
    """`order` is the order of divvy. Subclasses have:

    nodes(): the nodes of all clusters that can have this order's tag, as dictionaries for the list.
    launch(script): creates a node that runs `script` as root when it starts, and returns its instance.
    remove(instance): removes a node that exists.
    """

    known = ()  # The options that it reads itself. Empty: all options are arguments of its program.
    every_call = ()  # Options that say where nodes are. A shape cannot have them, because lists do not know shapes.
    set_itself = ()  # Options of its program that are not for administrators.
    has_tokens = True  # A repeated request for one token creates nothing.

    def __init__(self, order):
        self.order = order
        self.shape = order.get("shape") or {}
        self.cluster, self.token = order["cluster"], order.get("token", "")
        self.options, self.own = [], {}
        of_shape = self.shape.get("options", [])
        for option in order.get("options", []) + of_shape:
            name, _, value = option.partition("=")
            if not option.startswith("--"):
                raise Failure(f"option '{option}' does not begin with --; write it like \"--region=eu-west-1\"")
            if name.startswith("--divvy-"):
                if name not in OWN_OPTIONS:
                    raise Failure(f"unknown option {name}: expected {', '.join(OWN_OPTIONS)}")
                self.own[name] = value
            elif self.known and name not in self.known:
                raise Failure(f"unknown option {name}: expected {', '.join(self.known + OWN_OPTIONS)}")
            elif name in self.set_itself:
                raise Failure(f"option {name} is set by divvy; remove it from the options")
            else:
                self.options.append((name, value))
        for name in (option.partition("=")[0] for option in of_shape):
            if name in self.every_call:
                raise Failure(f"option {name} of shape {self.shape['name']} does not apply to lists; move it to the "
                              "options of the provider, or use a second provider")

    def option(self, name, default=None):
        """The last value of an option; it is required unless there is a default."""
        values = [value for known, value in self.options if known == name]
        if not values and default is None:
            raise Failure(f'option {name} is missing; add "{name}=..." to the options of the provider')
        return values[-1] if values else default

    def words(self, *names):
        """The options as arguments of a program: those with these names, or all."""
        return [f"{name}={value}" if value else name for name, value in self.options if not names or name in names]

    def unless_given(self, *words):
        """The arguments whose options the administrator does not give."""
        given = {name for name, _ in self.options}
        return [word for word in words if word.partition("=")[0] not in given]

    # --- The three calls

    def mine(self):
        return [node for node in self.nodes() if node["cluster"] == self.cluster]

    def find(self):
        return sorted(node["instance"] for node in self.mine() if node["token"] == self.token)

    def create(self):
        if not (self.shape and self.token and self.order.get("name") and self.order.get("join")):
            raise Failure("the order has no token, name, join line or shape")
        if known := self.find():
            return {"instance": known[0]}
        if not self.has_tokens:
            self.note_request()
        try:
            return {"instance": self.launch(self.script())}
        except Rejected:
            self.forget_request()
            raise

    def list(self):
        return {"nodes": self.mine()}

    def destroy(self):
        for node in self.mine():
            wanted = self.order.get("instance")
            if node["instance"] == wanted if wanted else node["token"] == self.token:
                self.remove(node["instance"])
        self.forget_request()
        return {}

    # --- Clouds that would create a second node for the same token

    def request_file(self):
        return os.path.join(os.environ["HOME"], "provider-requests", self.order["provider"] + "." + self.token)

    def note_request(self):
        """Stores that a node is requested for the token. Fails if an earlier request may still create one."""
        path = self.request_file()
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            age = time.time() - os.stat(path).st_mtime
            if age < UNSURE_S:
                raise Failure(f"a node was requested {age:.0f} s ago and is not listed yet; its outcome is not known")
        except FileNotFoundError:
            pass
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            os.utime(file.fileno())
            os.fsync(file.fileno())
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def forget_request(self):
        if not self.has_tokens and self.token:
            try:
                os.unlink(self.request_file())
            except FileNotFoundError:
                pass

    # --- The node

    def agent(self):
        """The words that run the agent, without its join file."""
        words = [self.own.get("--divvy-path", "divvy"), "agent", "--on-demand", "--name", self.order["name"]]
        if emulate := self.own.get("--divvy-emulate"):
            words += ["--emulate", emulate]
        return words

    def script(self):
        """A shell script that starts the agent on a new machine. --divvy-setup: a script that runs before."""
        setup, user = "", self.own.get("--divvy-user", "root")
        if "--divvy-setup" in self.own:
            with open(self.own["--divvy-setup"], encoding="utf-8") as file:
                setup = file.read()
        quoted_user, agent = shlex.quote(user), shlex.join(self.agent())
        return f"""#!/bin/sh
mark=/var/lib/divvy-node.{self.token}
[ -e "$mark" ] && exit 0
: >"$mark" || exit 1
(
{setup}
) || exit 1
umask 077
home=$(mktemp -d /var/tmp/divvy-node.XXXXXX) || exit 1
cat >"$home/join" <<'JOIN'
{self.order["join"]}
JOIN
chown -R {quoted_user} "$home"
export DIVVY_HOME="$home"
if [ -d /run/systemd/system ]; then
  exec systemd-run --unit=divvy-node --uid={quoted_user} --setenv=DIVVY_HOME="$home" {agent} --join-file "$home/join"
fi
setsid setpriv --reuid={quoted_user} --init-groups {agent} --join-file "$home/join" >"$home/agent.out" 2>&1 </dev/null &
"""


# --- Helpers


def run(words, text="", environment=None):
    """Runs a program, with `text` as a file on its standard input, and returns what it prints."""
    with os.fdopen(os.memfd_create("input"), "r+", encoding="utf-8") as file:
        file.write(text)
        file.seek(0)
        try:
            done = subprocess.run(words, stdin=file, capture_output=True, text=True, check=False,
                                  env={**os.environ, **(environment or {})})
        except OSError as error:
            raise Failure(f"cannot run {words[0]}: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise Failure(f"{' '.join(words[:3])}: " + (lines[-1] if lines else f"exit code {done.returncode}"))
    return done.stdout


def run_json(words, text="", environment=None):
    """The same for a program that prints JSON, or nothing: None."""
    printed = run(words, text, environment)
    try:
        return json.loads(printed) if printed.strip() else None
    except ValueError:
        raise Failure(f"{' '.join(words[:3])}: it printed no JSON") from None


def api_key():
    """The first line of the file that `credentials` names."""
    path = os.environ.get("DIVVY_CREDENTIALS")
    if not path:
        raise Failure("it needs an API key: write it into a file of mode 600 and set credentials = \"FILE\"")
    with open(path, encoding="utf-8") as file:
        return file.readline().strip()


def call_api(method, url, body=None, most=1 << 26):
    """Calls an HTTP API with the key; returns the answer, or None if there is no such thing (404)."""
    if not url.startswith(("https://", "http://127.0.0.1:")):
        raise Failure(f"--api={url}: expected an address that begins with https://")
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("User-Agent", "divvy")
    request.add_unredirected_header("Authorization", "Bearer " + api_key())
    try:
        with urllib.request.urlopen(request, timeout=float(os.environ.get("DIVVY_TIMEOUT_S", 60)) / 2) as answer:
            text = answer.read(most)
            return json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        text = " ".join(error.read(300).decode(errors="replace").split())
        kind = Rejected if 400 <= error.code < 500 and error.code != 408 else Failure
        raise kind(f"{method} {url}: HTTP {error.code}: {text}") from None
    except ValueError:
        raise Failure(f"{method} {url}: the answer is no JSON") from None
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"{method} {url}: {getattr(error, 'reason', error) or type(error).__name__}") from None


def main(provider):
    """Carries out the call that the last argument names."""
    if sys.argv[-1] not in ("create", "list", "destroy"):
        sys.exit(f"usage: {sys.argv[0]} create|list|destroy, with an order on standard input; see docs/providers.md")
    try:
        print(json.dumps(getattr(provider(json.load(sys.stdin)), sys.argv[-1])()))
    except Failure as error:
        sys.exit(str(error))
    except (KeyError, TypeError, AttributeError, OSError, ValueError) as error:
        sys.exit(f"unexpected order or answer: {type(error).__name__}: {error}")
