#!/usr/bin/env bash
# divvy mcp as a program that an agent starts: looks, explains, reads output, refuses changes without --allow, submits
# and cancels with it. The official SDKs are tested by scripts/test-clients mcp, which needs the network.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "needs python3"
divvy up --quiet --emulate 2xH100-80GB
full=$(divvy submit --quiet --gpus 2 --name full -- sleep 1000)
wait_for "a full server" state_is "$full" running
waiting=$(divvy submit --quiet --gpus 1 --name waits -- true)
cat >talk.py <<'P'
import json, subprocess, sys


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
while "\\x1b[31mred" not in (log := changer.call("logs", fails=None, job=str(job), lines=500)):
    pass  # Neither is there a file before the job has begun.
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
echo "mcp: passed"
