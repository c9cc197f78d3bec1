#!/usr/bin/env bash
# divvy mcp as a program that an agent starts: looks, explains, reads output, refuses changes without --allow, submits
# and cancels with it. The same over HTTP, with a token and with a login to the page. The official SDKs are tested by
# scripts/test-clients mcp, which needs the network.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "needs python3"
divvy up --quiet --emulate 2xH100-80GB
full=$(divvy submit --quiet --gpus 2 --name full -- sleep 1000)
wait_for "a full server" state_is "$full" running
waiting=$(divvy submit --quiet --gpus 1 --name waits -- true)
cat >talk.py <<'P'
import json, subprocess, sys, time


class Server:
    def __init__(self, *words):
        self.process = subprocess.Popen(["divvy", "mcp", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0
        answer = self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"})
        assert answer["protocolVersion"] == "2025-06-18", answer
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        line = self.process.stdout.readline()
        assert all(byte >= 32 for byte in line[:-1]), line
        answer = json.loads(line)
        assert answer["id"] == self.number, answer
        return answer["result"]

    def call(self, tool, fails=False, **arguments):
        result = self.ask("tools/call", name=tool, arguments=arguments)
        text = result["content"][0]["text"]
        assert fails is None or result["isError"] == fails, text
        assert len(text.encode()) <= 32768, len(text)
        return text if result["isError"] else (json.loads(text) if text.startswith("{") else text)

    def tools(self):
        return {tool["name"] for tool in self.ask("tools/list")["tools"]}

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0


full, waiting = sys.argv[1:]
reader = Server()
assert {"submit", "cancel"}.isdisjoint(reader.tools()) and {"queue", "why", "preview_cancel"} <= reader.tools()
assert [job["display_id"] for job in reader.call("queue")["jobs"]] == [full, waiting], reader.call("queue")
assert [job["state"] for job in reader.call("queue", states=["running"])["jobs"]] == ["running"]
assert reader.call("show", job=full)["name"] == "full"
why = reader.call("why", job=waiting)
assert why["blockers"][0]["held_by"][0]["display_id"] == full, why
assert len(reader.call("gpus")["gpus"]) == 2 and reader.call("gpus", free=True) == {}, reader.call("gpus")
assert reader.call("forecast", job=waiting)["summary"] and "starts" in reader.call("forecast")
assert "rows" in reader.call("report", kind="usage", by="user", since="1d"), reader.call("report", kind="usage")
assert "by" in reader.call("report", fails=True, kind="usage", by="planet")
assert "no job 999" in reader.call("show", fails=True, job="999")
assert "1 GPU" in reader.call("preview_submit", command=["true"], gpus="1")["would_submit"]["summary"]
assert "9 GPUs" in reader.call("preview_submit", fails=True, command=["true"], gpus="9")
assert reader.call("preview_cancel", jobs=[waiting])["would_cancel"][0]["job"] == waiting
refused = reader.call("submit", fails=True, command=["true"])
assert "not allowed" in refused and "--allow submit" in refused, refused
assert "not allowed" in reader.call("cancel", fails=True, jobs=[full])
assert [job["state"] for job in reader.call("queue")["jobs"]] == ["running", "queued"]
# A line of more than 1 MiB is refused, and the next one is answered.
reader.send({"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {"x": "y" * (2 << 20)}})
assert "longer than 1 MiB" in json.loads(reader.process.stdout.readline())["error"]["message"]
assert reader.ask("ping") == {}
reader.end()

half = Server("--allow", "submit")
assert "submit" in half.tools() and "cancel" not in half.tools()
half.end()

changer = Server("--allow", "submit,cancel")
assert {"submit", "cancel"} <= changer.tools()
flood = "for i in $(seq 20000); do echo line $i; done; printf '\\033[31mred\\r\\n'; sleep 1000"
job = changer.call("submit", command=["sh", "-c", flood], name="flood", options=["--env=A=b"])["id"]
end = time.monotonic() + 60
while "\\x1b[31mred" not in (log := changer.call("logs", fails=None, job=str(job), lines=500)):
    assert time.monotonic() < end, log[-1000:]  # Neither is there a file before the job has begun.
assert log.endswith("line 20000\n\\x1b[31mred\\x0d\n"), log[-100:]
assert changer.call("logs", job=str(job), lines=2).startswith("line 20000\n")
assert changer.call("cancel", jobs=[str(job), waiting], reason="tested")["results"][0]["is_done"]
assert "empty" in changer.call("cancel", fails=True, jobs=[])
# After a restart of the daemon the same server continues.
subprocess.run(["divvy", "down"], check=True, stdout=subprocess.DEVNULL)
assert "divvy up" in changer.call("queue", fails=True)
subprocess.run(["divvy", "up", "--quiet", "--emulate", "2xH100-80GB"], check=True)
assert changer.call("show", job=waiting)["state"] == "cancelled"
changer.end()
P
python3 talk.py "$full" "$waiting" || fail "the conversation"
! divvy mcp --allow everything </dev/null 2>refused || fail "--allow everything was accepted"
grep -q "expected submit or cancel" refused || fail "says: $(cat refused)"

divvy cancel --all --grace 0 >/dev/null
wait_for "an empty queue" queue_is_empty
divvy down >/dev/null
up_listening
umask 077
divvy token create >user.token 2>/dev/null
divvy token create --role viewer >viewer.token 2>/dev/null
cat >agent.py <<'P'
import http.client, json, os, pwd, re, signal, ssl, subprocess, sys, time

port, pid = int(sys.argv[1]), int(sys.argv[2])
trusted = ssl.create_default_context(cadata=ssl.get_server_certificate(("127.0.0.1", port)))


def bearer(name):
    with open(name) as file:
        return {"Authorization": "Bearer " + re.search(r"#(.*)\.", file.read()).group(1)}


class Agent:
    def __init__(self, headers, query="", make=lambda: http.client.HTTPSConnection("localhost", port, context=trusted)):
        self.headers, self.path, self.make = headers, "/v1/mcp" + query, make

    def send(self, body, method="POST", **more):
        connection = self.make()
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers, **more}
        connection.request(method, self.path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def ask(self, method, **params):
        status, text = self.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))
        assert status == 200, (status, text)
        return json.loads(text)["result"]

    def tools(self):
        return {tool["name"] for tool in self.ask("tools/list")["tools"]}

    def call(self, tool, fails=False, **arguments):
        result = self.ask("tools/call", name=tool, arguments=arguments)
        text = result["content"][0]["text"]
        assert fails is None or result["isError"] == fails, text
        return text if result["isError"] else (json.loads(text) if text.startswith("{") else text)


listing = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
# The last one claims to be the web page, which is not served here.
for headers, expected in (
    ({}, 401),
    ({"Authorization": "Bearer 00000000." + 64 * "0"}, 401),
    ({"Cookie": f"__Host-divvy-{port}=x"}, 401),
    ({"Cookie": f"__Host-divvy-{port}=x", "Divvy-Page": "x"}, 403),
):
    status, text = Agent(headers).send(listing)
    assert status == expected, (headers, status, text)

reader = Agent(bearer("user.token"))
assert reader.ask("initialize", protocolVersion="2025-06-18", capabilities={})["protocolVersion"] == "2025-06-18"
assert reader.send('{"jsonrpc":"2.0","method":"notifications/initialized"}') == (202, "")
assert {"queue", "preview_submit"} <= reader.tools() and "submit" not in reader.tools()
assert "?allow=submit" in reader.call("submit", fails=True, command=["true"])
assert reader.send(listing, Origin="http://evil.example")[0] == 403
assert reader.send(None, method="GET")[0] == 405
assert Agent(bearer("user.token"), "?allow=all").send(listing)[0] == 400
large = reader.make()
large.putrequest("POST", reader.path)
for name, value in {**reader.headers, "Content-Length": str(2 << 20)}.items():
    large.putheader(name, value)
large.endheaders()
assert large.getresponse().status == 413

viewer = Agent(bearer("viewer.token"), "?allow=submit,cancel")
assert "is read-only" in viewer.call("submit", fails=True, command=["true"])
assert "jobs" in viewer.call("queue") or viewer.call("queue") == {}

changer = Agent(bearer("user.token"), "?allow=submit,cancel")


def read_until(words, job):
    end = time.monotonic() + 60
    while words not in (log := changer.call("logs", fails=None, job=job, lines=500)):
        assert time.monotonic() < end, log[-1000:]
    return log


assert "1 GPU" in changer.call("preview_submit", command=["true"], gpus="1")["would_submit"]["summary"]
home = pwd.getpwuid(os.getuid()).pw_dir
short = str(changer.call("submit", command=["sh", "-c", 'echo "home $HOME in $PWD"'])["id"])
log = read_until("home ", short)
assert log in {f"home {home} in {home}\n", f"home {home} in {os.path.realpath(home)}\n"}, log
flood = "for i in $(seq 20000); do echo line $i; done; sleep 1000"
job = str(changer.call("submit", command=["sh", "-c", flood], name="flood", gpus="1")["id"])
log = read_until("line 20000\n", job)
assert log.endswith("line 20000\n") and len(log) < 32768, log[-100:]
os.kill(pid, signal.SIGKILL)
subprocess.run(["divvy", "up", "--quiet", "--emulate", "2xH100-80GB", "--listen", f"127.0.0.1:{port}"], check=True)
assert changer.call("show", job=job)["state"] == "running"
assert changer.call("cancel", jobs=[job], reason="tested")["results"][0]["is_done"]

link = subprocess.run(["divvy", "ui", "--no-open"], check=True, text=True, capture_output=True).stdout.strip()
place, secret = re.fullmatch(r"http://(.*)/#login=(.*)", link).groups()
plain = lambda: http.client.HTTPConnection(place)
login = plain()
login.request("POST", "/ui/login", json.dumps({"link": secret}), {"Content-Type": "application/json", "Divvy-Page": "login"})
answer = login.getresponse()
session = {"Cookie": answer.getheader("Set-Cookie").split(";")[0], "Divvy-Page": json.loads(answer.read())["page"]}
page = Agent(session, make=plain)
assert "queue" in page.tools() and page.call("show", job=job)["name"] == "flood"
assert page.send(listing, Origin="http://evil.example")[0] == 403
assert page.send(listing, Host="evil.example")[0] == 403
assert Agent({**session, "Divvy-Page": "0" * len(session["Divvy-Page"])}, make=plain).send(listing)[0] == 401
assert Agent({"Cookie": session["Cookie"]}, make=plain).send(listing)[0] == 401
P
python3 agent.py "$port" "$(daemon_pid)" || fail "the conversation over HTTP"
expect 409 "$(curl -s -o answer -w '%{http_code}' --unix-socket "$DIVVY_HOME/divvy.sock" http://divvy/v1/mcp -d '{}')" \
  "the path on the socket"
echo "mcp: passed"
