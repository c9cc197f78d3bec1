"""The package and the API's document agree."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import divvy
from divvy import _options, messages

PACKAGE = Path(divvy.__file__).parent
sys.path.insert(0, str(PACKAGE.parent))
import generate_messages  # noqa: E402
import wheel_builder  # noqa: E402


@pytest.fixture()
def document(client):
    return client.request("GET", "/v1/openapi.json")


def test_the_types_are_those_of_the_document(document):
    committed = generate_messages.TARGET.read_text(encoding="utf-8")
    assert committed == generate_messages.generate(document), "run generate_messages.py"


def test_the_fields_of_each_message_are_those_of_the_answers(client, document):
    """Answers also have the names that fields had in the last release; the document marks them as deprecated."""
    job = client.submit("true")
    job.wait(60)
    for answer, kind in ((job.info(), messages.JobInFull), (client.status(), messages.StatusView),
                         (client.gpus()[0], messages.GpuView), (client.why(job), messages.WhyView),
                         (client.queue(ended=True)[-1], messages.JobView), (client.nodes()[0], messages.NodeView),
                         (job.wait(), messages.WaitAnswer), (client.preview("true"), messages.ForecastAnswer)):
        fields = document["components"]["schemas"][kind.__name__]["properties"]
        former = {name for name, schema in fields.items() if schema.get("deprecated")}
        assert set(answer) - former == set(kind.__annotations__) and former <= set(answer), kind


def test_every_request_of_the_package_is_in_the_document(document):
    """Collects each (method, path) that the sources name; {..} of an f-string stands for any text."""
    routes = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path))
        for path, methods in document["paths"].items()
        for method in methods
    }
    asked = set()
    for source in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            name, args = node.func.attr, node.args
            if name == "request" and len(args) >= 2 and isinstance(args[0], ast.Constant):
                asked.add((args[0].value, _path(args[1])))
            elif name == "lines" and args:
                asked.add(("GET", _path(args[0])))
            elif name == "_act" and args:
                asked.add(("POST", f"/v1/jobs/{args[0].value}"))
    asked.discard(("POST", "/v1/jobs/{}"))  # _act(); its actions are collected above.
    asked.discard(("POST", "/v1/jobs/{}/{}"))
    asked |= {("POST", f"/v1/jobs/{{}}/{what}") for what in ("metrics", "progress", "checkpoint")}  # _inside._post().
    assert len(asked) > 20
    assert asked - {("GET", "/v1/openapi.json")} <= routes


def _path(node):
    if isinstance(node, ast.Constant):
        return node.value
    assert isinstance(node, ast.JoinedStr), ast.dump(node)
    return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)


SAMPLES = {
    "gpus": 1, "gpu_type": "h100", "gpu_memory": "40G", "gpu_limit": 0.5, "gpu_memory_limit": "50G", "shared": True,
    "compute": 0.5, "idle_park": "10m", "mps": True, "slice": "1g.10gb", "cpus": 2, "memory": "1G", "tasks": 2,
    "gpus_per_task": 1, "nodes": 2, "constraint": "ib", "nodelist": "n1", "exclude": "n2", "topology": "numa",
    "placement": "pack", "queue_anyway": True, "time": "2h", "begin": "now+1h", "deadline": "2099-01-01T00:00:00",
    "priority": -2, "hold": True, "after": 1, "after_ok": [1, 2], "dependency": "singleton", "keep_waiting": True,
    "array": "0-3%2", "param": {"lr": [1]}, "name_template": "a-{lr}", "retries": 2, "retry_delay": "5s",
    "group": "g", "group_limit": 2, "preemptible": "requeue", "requeue_after_reboot": True, "output": "out-%j",
    "error": "err", "input": "in", "open_mode": "append", "chdir": "/tmp", "env": {"A": "b"}, "signal": "USR1@60",
    "stop_signal": "INT", "resize_signal": "none", "grace": "5s", "name": "it's \"quoted\" # no comment",
    "project": "p", "team": "t", "comment": "c", "account": "a", "pool": "x", "notify": "end", "notify_to": "phone",
    "on_waste": "park", "image": "docker://alpine", "mount": ["/data", "/tmp:/scratch"], "container_workdir": "/w",
}  # fmt: skip
TOGETHER = {
    "gpu_limit": {"gpus": 0.25}, "gpu_memory_limit": {"gpu_memory": "40G"}, "shared": {"gpu_memory": "40G"},
    "compute": {"gpus": 0.25}, "idle_park": {"gpus": 0.25}, "mps": {"gpus": 0.25}, "name_template": {"param": {"lr": [1]}},
    "group_limit": {"group": "g"}, "mount": {"image": "x"}, "container_workdir": {"image": "x"},
    "notify_to": {"notify": "end"}, "gpus_per_task": {"tasks": 2},
}  # fmt: skip


def test_every_option_is_one_of_divvy_submit(client):
    assert set(SAMPLES) == set(_options.NAMES)
    for name, value in SAMPLES.items():
        others = TOGETHER.get(name, {})
        spec = client._spec("true", {name: value, **others})
        without = client._spec("true", others)
        assert spec != without, f"{name} has no effect"


def test_a_text_of_an_option_arrives_unchanged(client):
    spec = client._spec("true", {"name": SAMPLES["name"]})
    assert spec["name"] == SAMPLES["name"]


def test_the_version_is_that_of_divvy(document):
    assert divvy.__version__ == document["info"]["version"] == wheel_builder.version()


def test_the_package_is_fully_typed():
    mypy = pytest.importorskip("mypy", reason="needs mypy")
    assert mypy
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", "/dev/null"], cwd=PACKAGE.parent, stdout=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
