"""The official SDKs for Python and TypeScript as clients of divvy mcp, and of the daemon over HTTP.

Each submits a job, asks why another one waits, reads output and cancels; and is refused without permission.
"""

import asyncio
import importlib.metadata
import json
import os
import pathlib
import random
import re
import ssl
import subprocess

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

SDK = "1.32.2"  # Of @modelcontextprotocol/sdk.
SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [full, url, bearer] = process.argv.slice(2);
async function connect(allowed) {
  const client = new Client({ name: "test", version: "1" });
  const args = ["mcp", ...(allowed ? ["--allow", allowed] : [])];
  await client.connect(
    url
      ? new StreamableHTTPClientTransport(new URL(allowed ? `${url}?allow=${allowed}` : url), {
          requestInit: { headers: { Authorization: bearer } },
        })
      : new StdioClientTransport({ command: "divvy", args, env: process.env }),
  );
  return client;
}
async function call(client, name, args, fails = false) {
  const result = await client.callTool({ name, arguments: args });
  if (result.isError !== fails) throw new Error(name + ": " + result.content[0].text);
  return result.content[0].text;
}
function check(holds, what) {
  if (!holds) throw new Error("not so: " + what);
}
const reader = await connect();
const tools = (await reader.listTools()).tools.map((tool) => tool.name);
check(tools.includes("queue") && !tools.includes("submit"), "the reader's tools");
check((await call(reader, "submit", { command: ["true"] }, true)).includes("not allowed here"), "the refusal");
await reader.close();
const changer = await connect("submit,cancel");
const job = JSON.parse(await call(changer, "submit", { command: ["echo", "from node"], name: "node" })).id;
const waiting = JSON.parse(await call(changer, "submit", { command: ["true"], gpus: "8" })).id;
const why = JSON.parse(await call(changer, "why", { job: String(waiting) }));
check(why.blockers[0].held_by[0].display_id === full, "who holds the GPUs");
let log = "";
while (!log.includes("from node")) log = await call(changer, "logs", { job: String(job) }, false);
JSON.parse(await call(changer, "cancel", { jobs: [String(waiting)] }));
check(JSON.parse(await call(changer, "show", { job: String(waiting) })).state === "cancelled", "the cancelled job");
await changer.close();
console.log("submit, why, logs and cancel; refused without permission");
"""


async def connected(words, work):
    server = StdioServerParameters(command="divvy", args=["mcp", *words], env=dict(os.environ))
    async with stdio_client(server) as (read, write):
        return await talk(read, write, work)


async def connected_over_http(url, bearer, work):
    async with streamablehttp_client(url, headers={"Authorization": bearer}) as (read, write, _):
        return await talk(read, write, work)


async def talk(read, write, work):
    async with ClientSession(read, write) as session:
        started = await session.initialize()
        assert started.serverInfo.name == "divvy" and started.protocolVersion == "2025-06-18", started
        return await work(session)


async def call(session, tool, /, fails=False, **arguments):
    result = await session.call_tool(tool, arguments)
    text = result.content[0].text
    assert result.isError == fails, text
    return text


async def read_only(session):
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert all(tool.annotations.readOnlyHint for tool in tools.values()), tools
    for name in ("submit", "cancel"):
        assert name not in tools and f"preview_{name}" in tools
    assert "not allowed here" in await call(session, "submit", fails=True, command=["true"])
    assert "not allowed here" in await call(session, "cancel", fails=True, jobs=["1"])


def change(full):
    async def work(session):
        job = json.loads(await call(session, "submit", command=["echo", "from python"], name="python"))["id"]
        waiting = json.loads(await call(session, "submit", command=["true"], gpus="8"))["id"]
        why = json.loads(await call(session, "why", job=str(waiting)))
        assert why["blockers"][0]["held_by"][0]["display_id"] == full, why
        while "from python" not in await call(session, "logs", job=str(job)):
            pass
        assert json.loads(await call(session, "cancel", jobs=[str(waiting)]))["results"][0]["is_done"]
        assert json.loads(await call(session, "show", job=str(waiting)))["state"] == "cancelled"

    return work


def listen():
    """Restarts the daemon so that it listens over TLS. Returns the address and the header of a new token."""
    subprocess.run(["divvy", "down"], check=True, stdout=subprocess.DEVNULL)
    for _ in range(5):
        port = random.randrange(20000, 32000)
        up = ["divvy", "up", "--quiet", "--emulate", "8xH100-80GB", "--listen", f"127.0.0.1:{port}"]
        if subprocess.run(up).returncode == 0:
            break
    else:
        raise RuntimeError("the daemon does not start on any of five ports")
    line = subprocess.run(["divvy", "token", "create"], check=True, text=True, stdout=subprocess.PIPE).stdout
    pathlib.Path("divvy.pem").write_text(ssl.get_server_certificate(("127.0.0.1", port)))
    os.environ["SSL_CERT_FILE"] = os.environ["NODE_EXTRA_CA_CERTS"] = os.path.abspath("divvy.pem")
    return f"https://localhost:{port}/v1/mcp", "Bearer " + re.search(r"#(.*)\.", line).group(1)


def node_client():
    folder = pathlib.Path(os.environ["CLIENTS_ENVIRONMENT"], "node")
    if not (folder / "node_modules/@modelcontextprotocol/sdk").exists():
        folder.mkdir(exist_ok=True)
        subprocess.run(["npm", "install", "--silent", f"@modelcontextprotocol/sdk@{SDK}"], cwd=folder, check=True)
    (folder / "client.mjs").write_text(SCRIPT)
    return ["node", folder / "client.mjs"]


def main():
    node = node_client()
    submit = ["divvy", "submit", "--quiet", "--gpus", "1", "sleep", "1000"]
    full = subprocess.run(submit, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    python = f"Python SDK {importlib.metadata.version('mcp')}"
    said = "submit, why, logs and cancel; refused without permission"
    asyncio.run(connected([], read_only))
    asyncio.run(connected(["--allow", "submit,cancel"], change(full)))
    print(f"{python}: {said}")
    answer = subprocess.run([*node, full], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    print(f"TypeScript SDK {SDK}: {answer}")

    url, bearer = listen()
    asyncio.run(connected_over_http(url, bearer, read_only))
    asyncio.run(connected_over_http(url + "?allow=submit,cancel", bearer, change(full)))
    print(f"{python} over HTTP: {said}")
    answer = subprocess.run([*node, full, url, bearer], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    print(f"TypeScript SDK {SDK} over HTTP: {answer}")


main()
