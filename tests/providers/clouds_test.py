#!/usr/bin/env python3
"""Tests the providers of contrib/providers with stand-ins for the clouds (fake_cloud.py, and a server for APIs)."""
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "..", "..", "contrib", "providers")
TOKEN, OTHER = "0b" * 16, "1c" * 16
JOIN = "gpu1.lab:7433#4f1c22aa." + "ab" * 32
KEY = "key-that-is-secret"


class CloudTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.state = os.path.join(self.folder.name, "state")
        self.home = os.path.join(self.folder.name, "home")
        tools = os.path.join(self.folder.name, "bin")
        for path in (self.state, self.home, tools):
            os.mkdir(path)
        for tool in ("aws", "gcloud", "az", "ssh", "wake"):
            os.symlink(os.path.join(HERE, "fake_cloud.py"), os.path.join(tools, tool))
        os.symlink(sys.executable, os.path.join(tools, "python3"))
        self.credentials = os.path.join(self.folder.name, "credentials")
        self.environment = {"PATH": tools, "HOME": self.home, "FAKE_STATE": self.state,
                            "DIVVY_CREDENTIALS": self.credentials, "DIVVY_TIMEOUT_S": "20",
                            "PYTHONDONTWRITEBYTECODE": "1"}
        self.write(self.credentials, KEY + "\n")

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def run_program(self, program, verb, options=(), token=TOKEN, **more):
        shape = {"name": "p5.48xlarge", "gpu_model": "H100-80GB", "gpus": 8, "cpus": 192, "memory_bytes": 1 << 40,
                 "labels": [], "max_lifetime_s": more.pop("max_lifetime_s", 0), "is_spot": more.pop("is_spot", False),
                 "options": list(more.pop("shape_options", ()))}
        order = {"version": 1, "cluster": "divvy1", "provider": "cloud", "options": list(options), "token": token,
                 "instance": "", **more}
        if verb == "create":
            order.update(name="cloud-1", join=JOIN, shape=shape)
        return subprocess.run([os.path.join(PROGRAMS, program), verb], input=json.dumps(order), text=True,
                              capture_output=True, check=False, env=self.environment, timeout=60)

    def call(self, *words, **more):
        done = self.run_program(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refusal(self, *words, **more):
        done = self.run_program(*words, **more)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for secret in (JOIN, KEY, "a-secret"):
            self.assertNotIn(secret, done.stderr)
        return done.stderr.strip()

    def machines(self):
        with open(os.path.join(self.state, "machines"), encoding="utf-8") as file:
            return json.load(file)

    def calls(self):
        with open(os.path.join(self.state, "calls"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def lives_through(self, program, options):
        """Creates a node twice, lists it, and destroys it twice, by token and by instance."""
        self.assertEqual(self.call(program, "list", options), {"nodes": []})
        instance = self.call(program, "create", options)["instance"]
        self.assertEqual(self.call(program, "create", options)["instance"], instance)
        node = {"cluster": "divvy1", "token": TOKEN, "instance": instance}
        self.assertEqual(self.call(program, "list", options), {"nodes": [node]})
        self.assertEqual(self.call(program, "list", options, cluster="divvy2"), {"nodes": []})
        self.assertEqual(self.call(program, "destroy", options, token=OTHER, instance="none"), {})
        self.assertEqual(len(self.call(program, "list", options)["nodes"]), 1)
        self.assertEqual(self.call(program, "destroy", options, instance=instance), {})
        self.assertEqual(self.call(program, "destroy", options), {})
        self.assertEqual(self.call(program, "list", options), {"nodes": []})
        return instance

    def keeps_secrets(self):
        for words in self.calls():
            for secret in (JOIN, JOIN.split(".")[-1], KEY, "a-secret"):
                self.assertNotIn(secret, " ".join(words))

    # --- The tools of clouds

    def test_aws(self):
        options = ["--region=eu-west-1", "--image-id=ami-1"]
        instance = self.lives_through("aws", options)
        machine = self.machines()[instance]
        self.assertEqual(machine["type"], "p5.48xlarge")
        self.assertIn(JOIN, machine["script"])
        self.keeps_secrets()

    def test_aws_answer_of_create_is_lost(self):
        self.write(os.path.join(self.state, "fail"), "aws 2")
        self.assertEqual(self.refusal("aws", "create"), "aws ec2 run-instances: the connection was closed")
        os.unlink(os.path.join(self.state, "fail"))
        self.call("aws", "create")
        self.assertEqual(len(self.machines()), 1)

    def test_aws_has_no_capacity(self):
        self.write(os.path.join(self.state, "fail"), "aws 1")
        self.assertEqual(self.refusal("aws", "create"), "aws ec2 run-instances: An error occurred "
                         "(InsufficientInstanceCapacity): there is no capacity")

    def test_aws_token_of_terminated_instance_creates_nothing(self):
        self.call("aws", "create")
        self.call("aws", "destroy")
        self.write(os.path.join(self.folder.name, "setup"), "echo another script\n")
        options = ["--divvy-setup=" + os.path.join(self.folder.name, "setup")]
        self.assertIn("IdempotentParameterMismatch", self.refusal("aws", "create", options))
        self.assertEqual(len(self.machines()), 1)

    def test_aws_names_the_time_at_which_a_spot_instance_ends(self):
        instance = self.call("aws", "create", is_spot=True)["instance"]
        self.assertNotIn("ends_at", self.call("aws", "list")["nodes"][0])
        machines = self.machines()
        machines[instance]["marked"] = True
        self.write(os.path.join(self.state, "machines"), json.dumps(machines))
        self.assertEqual(self.call("aws", "list")["nodes"][0]["ends_at"], 1795860000 + 120)

    def test_aws_asks_for_the_ends_of_many_spot_instances(self):
        self.call("aws", "create", is_spot=True)
        (machine,) = self.machines().values()
        many = {f"i-{number:017x}": {**machine, "marked": number == 249} for number in range(250)}
        self.write(os.path.join(self.state, "machines"), json.dumps(many))
        nodes = self.call("aws", "list")["nodes"]
        self.assertEqual([node["instance"] for node in nodes if "ends_at" in node], [f"i-{249:017x}"])
        # Without the right to ask, there is still a list.
        self.write(os.path.join(self.state, "fail"), "describe-spot-instance-requests 1")
        self.assertEqual(len(self.call("aws", "list")["nodes"]), 250)

    def test_own_options_come_last_and_defaults_can_be_replaced(self):
        self.call("aws", "create", ["--metadata-options=HttpTokens=optional", "--instance-type=p4d"])
        words = self.calls()[-1]
        self.assertEqual([word for word in words if "metadata-options" in word or "instance-type" in word],
                         ["--metadata-options=HttpTokens=optional", "--instance-type=p4d"])
        self.assertTrue(words[-1].startswith("--tag-specifications=ResourceType=instance,Tags=[{Key=divvy-cluster"))
        for program, option in (("aws", "--tag-specifications=ResourceType=instance,Tags=[]"), ("aws", "--count=3"),
                                ("azure", "--tags=a=b"), ("azure", "--count=2"), ("gcloud", "--labels=a=b")):
            name = option.partition("=")[0]
            options = ["--resource-group=g", "--zone=z"] if program != "aws" else []
            self.assertEqual(self.refusal(program, "create", options + [option]),
                             f"option {name} is set by divvy; remove it from the options")

    def test_a_shape_cannot_create_nodes_where_lists_do_not_look(self):
        for program, option in (("aws", "--region=eu-west-1"), ("gcloud", "--project=p"), ("lambda", "--api=https://a"),
                                ("azure", "--subscription=s"), ("runpod", "--api=https://a")):
            name = option.partition("=")[0]
            self.assertIn(f"option {name} of shape p5.48xlarge does not apply to lists",
                          self.refusal(program, "create", shape_options=[option]))

    def test_gcloud(self):
        options = ["--project=p"]
        shape = ["--zone=us-central1-a", "--accelerator=type=nvidia-l4,count=1"]
        instance = self.call("gcloud", "create", options, shape_options=shape, is_spot=True,
                             max_lifetime_s=3600)["instance"]
        self.assertEqual(instance, f"us-central1-a/divvy-{TOKEN}")
        machine = self.machines()[f"divvy-{TOKEN}"]
        self.assertIn(JOIN, machine["script"])
        self.assertEqual(machine["options"]["provisioning-model"], ["SPOT"])
        self.assertEqual(machine["options"]["max-run-duration"], ["3600s"])
        self.call("gcloud", "destroy", options)
        self.lives_through("gcloud", options + shape[:1])
        self.keeps_secrets()

    def test_gcloud_without_zone(self):
        self.assertEqual(self.refusal("gcloud", "create"),
                         'option --zone is missing; add "--zone=..." to the options of the provider')

    def test_azure(self):
        self.write(self.credentials, json.dumps({"appId": "app", "password": "a-secret", "tenant": "t"}))
        instance = self.lives_through("azure", ["--resource-group=g", "--image=Ubuntu2204"])
        self.assertEqual(instance, f"divvy-{TOKEN}")
        self.assertEqual([words[1] for words in self.calls()].count("login"), 1)
        self.keeps_secrets()

    def test_azure_leaves_no_address_and_no_security_group(self):
        self.write(self.credentials, json.dumps({"appId": "app", "password": "a-secret", "tenant": "t"}))
        self.call("azure", "create", ["--resource-group=g", "--image=Ubuntu2204"])
        self.call("azure", "create", ["--resource-group=g", "--image=Ubuntu2204", "--nsg=lab"], token=OTHER)
        given = [self.machines()[f"divvy-{token}"]["options"] for token in (TOKEN, OTHER)]
        self.assertEqual([(one["nsg"], one["public-ip-address"]) for one in given], [([""], [""]), (["lab"], [""])])

    def test_azure_credentials_are_replaced(self):
        for password in ("a-secret", "a-secret-2"):
            self.write(self.credentials, json.dumps({"appId": "app", "password": password, "tenant": "t"}))
            for _ in range(2):
                self.call("azure", "list", ["--resource-group=g"])
        verbs = [words[1:3] for words in self.calls() if words[1] != "vm"]
        self.assertEqual([words[1] if words[0] == "account" else words[0] for words in verbs],
                         ["login", "show", "clear", "login", "show"])
        self.write(self.credentials, json.dumps({"appId": "app", "password": "wrong", "tenant": "t"}))
        for _ in range(2):
            self.assertIn("invalid client secret", self.refusal("azure", "list", ["--resource-group=g"]))

    def test_azure_with_a_wrong_key(self):
        self.write(self.credentials, json.dumps({"appId": "app", "password": "wrong", "tenant": "t"}))
        self.assertEqual(self.refusal("azure", "list", ["--resource-group=g"]),
                         "az login --output=none: invalid client secret")

    def test_program_is_not_installed(self):
        os.unlink(os.path.join(self.folder.name, "bin", "gcloud"))
        self.assertEqual(self.refusal("gcloud", "list"), "cannot run gcloud: No such file or directory")

    def test_bad_options(self):
        self.assertIn("option 'region=x' does not begin with --", self.refusal("aws", "list", ["region=x"]))
        self.assertIn("unknown option --divvy-pat: expected --divvy-path",
                      self.refusal("aws", "list", ["--divvy-pat=x"]))
        self.assertIn("unknown option --zone: expected --region", self.refusal("lambda", "list", ["--zone=x"]))

    # --- Hosts that are woken up

    def test_ssh(self):
        options = ["--wake=wake {host}", "--login=root"]
        hosts = ["--host=gpu1", "--host=gpu2"]
        first = self.call("ssh", "create", options, shape_options=hosts)["instance"]
        self.assertEqual(first, "gpu1")
        self.assertEqual(self.call("ssh", "create", options, shape_options=hosts)["instance"], "gpu1")
        self.assertEqual(self.call("ssh", "create", options, shape_options=hosts, token=OTHER)["instance"], "gpu2")
        self.assertIn("all 2 hosts of shape p5.48xlarge are in use",
                      self.refusal("ssh", "create", options, shape_options=hosts, token="2d" * 16))
        self.assertEqual(len(self.call("ssh", "list", options)["nodes"]), 2)
        self.call("ssh", "list", options)
        with open(os.path.join(self.state, "gpu1", "scripts"), encoding="utf-8") as file:
            script = file.read()
        self.assertEqual(script.count(JOIN), 1)  # Started once.
        for host in hosts:
            with open(os.path.join(self.home, "providers-ssh", host.removeprefix("--host=")), encoding="utf-8") as file:
                self.assertNotIn(JOIN, file.read())
        self.call("ssh", "destroy", options, instance="gpu1")
        with open(os.path.join(self.state, "gpu1", "scripts"), encoding="utf-8") as file:
            self.assertIn("systemctl poweroff", file.read())
        self.call("ssh", "destroy", options)
        self.assertEqual([node["instance"] for node in self.call("ssh", "list", options)["nodes"]], ["gpu2"])
        self.keeps_secrets()

    def claim(self, host, **changes):
        """What the program keeps about a host, after these changes."""
        path = os.path.join(self.home, "providers-ssh", host)
        with open(path, encoding="utf-8") as file:
            claim = {**json.load(file), **changes}
        self.write(path, json.dumps(claim))
        return claim

    def count(self, tool):
        return [words[0] for words in self.calls()].count(tool)

    def test_ssh_host_that_cannot_be_reached(self):
        self.call("ssh", "create", ["--wake=wake {host}"], shape_options=["--host=gpu1"])
        self.call("ssh", "list")
        self.assertEqual(self.claim("gpu1")["join"], "")
        shutil.rmtree(os.path.join(self.state, "gpu1"))
        self.assertIn("No route to host", self.refusal("ssh", "destroy", instance="gpu1"))
        self.assertEqual(len(self.call("ssh", "list")["nodes"]), 1)

    def test_ssh_host_that_was_never_reached_is_released(self):
        self.call("ssh", "create", shape_options=["--host=gpu1"])
        self.assertEqual(len(self.call("ssh", "list")["nodes"]), 1)
        self.call("ssh", "destroy", instance="gpu1")
        self.assertEqual(self.call("ssh", "list"), {"nodes": []})
        self.call("ssh", "create", shape_options=["--host=gpu1"], token=OTHER)

    def test_ssh_wakes_a_host_until_it_answers(self):
        words = {"options": ["--wake=wake {host}"], "shape_options": ["--host=gpu1"]}
        self.write(os.path.join(self.state, "no-wake"), "")
        for _ in range(2):
            self.assertEqual(self.refusal("ssh", "create", **words), "wake gpu1: no such interface")
        os.unlink(os.path.join(self.state, "no-wake"))
        self.assertEqual(self.call("ssh", "create", **words)["instance"], "gpu1")
        shutil.rmtree(os.path.join(self.state, "gpu1"))  # It has not heard that.
        woken = self.count("wake")
        self.call("ssh", "list")
        self.assertEqual(self.count("wake"), woken)
        self.claim("gpu1", woken=1)  # Long ago.
        self.call("ssh", "list")
        self.assertEqual(self.count("wake"), woken + 1)
        self.call("ssh", "list")
        self.assertEqual(self.claim("gpu1")["join"], "")
        self.claim("gpu1", woken=1)
        self.call("ssh", "list")
        self.assertEqual(self.count("wake"), woken + 1)

    def test_ssh_host_that_shuts_down_is_not_used_before_it_is_off(self):
        words = {"options": ["--wake=wake {host}"], "shape_options": ["--host=gpu1"]}
        self.call("ssh", "create", **words)
        self.call("ssh", "list")
        self.call("ssh", "destroy", instance="gpu1")
        self.call("ssh", "create", token=OTHER, **words)
        self.call("ssh", "list")
        woken = self.count("wake")
        self.assertNotEqual(self.claim("gpu1")["join"], "")  # It still answers.
        shutil.rmtree(os.path.join(self.state, "gpu1"))
        self.call("ssh", "list")
        self.assertEqual(self.count("wake"), woken + 1)
        self.call("ssh", "list")
        self.assertEqual(self.claim("gpu1")["join"], "")
        # One that does not go down is used after some time.
        self.call("ssh", "destroy", token=OTHER)
        self.call("ssh", "create", **words)
        self.assertNotEqual(self.claim("gpu1")["join"], "")
        self.claim("gpu1", left=1)
        self.call("ssh", "list")
        self.assertEqual(self.claim("gpu1")["join"], "")

    def test_ssh_providers_use_no_host_twice(self):
        hosts = ["--host=gpu1", "--host=gpu2"]
        self.assertEqual(self.call("ssh", "create", shape_options=hosts)["instance"], "gpu1")
        self.assertEqual(self.call("ssh", "create", shape_options=hosts, token=OTHER, provider="other")["instance"],
                         "gpu2")
        for provider, host in (("cloud", "gpu1"), ("other", "gpu2")):
            nodes = self.call("ssh", "list", provider=provider)["nodes"]
            self.assertEqual([node["instance"] for node in nodes], [host])
        self.call("ssh", "destroy", instance="gpu1", token=OTHER, provider="other")
        self.assertEqual(len(self.call("ssh", "list")["nodes"]), 1)

    def test_ssh_start_that_breaks_off_is_repeated(self):
        agent = os.path.join(self.folder.name, "agent")
        self.write(agent, "#!/bin/sh\necho started >>\"$DIVVY_HOME/started\"\n")
        os.chmod(agent, 0o700)
        os.mkdir(os.path.join(self.state, "gpu1"))
        self.call("ssh", "create", [f"--divvy-path={agent}"], shape_options=["--host=gpu1"])
        with open(os.path.join(self.state, "gpu1", "scripts"), encoding="utf-8") as file:
            script = file.read().replace("/var/tmp", self.state).replace("exit 0\n", "")
        home = os.path.join(self.state, "divvy-node." + TOKEN)
        self.assertIn("mv -T", script)
        for part in (script[:len(script) // 2], script[:-len("start\n")]):
            subprocess.run(["sh"], input=part, text=True, check=False, capture_output=True)
            self.assertFalse(os.path.exists(home))
        os.mkdir(home + ".Abc123")  # Of a start that broke off.
        for _ in range(2):
            subprocess.run(["sh"], input=script, text=True, check=True)
        with open(os.path.join(home, "join"), encoding="utf-8") as file:
            self.assertEqual(file.read(), JOIN + "\n")
        started = os.path.join(home, "started")
        deadline = time.monotonic() + 20
        while not (os.path.exists(started) and os.path.getsize(started)) and time.monotonic() < deadline:
            time.sleep(0.02)
        with open(started, encoding="utf-8") as file:
            self.assertEqual(file.read(), "started\n")

    def test_ssh_host_is_switched_off_from_outside(self):
        self.call("ssh", "create", ["--off=wake off-{host}"], shape_options=["--host=gpu1"])
        self.call("ssh", "destroy", instance="gpu1")
        self.assertEqual(self.call("ssh", "list"), {"nodes": []})
        self.assertTrue(os.path.isdir(os.path.join(self.state, "off-gpu1")))

    # --- APIs

    def serve(self, handle):
        """Serves `handle`(method, path, body), which returns a status and an answer. Requests need the key."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                is_known = self.headers["Authorization"] == "Bearer " + KEY
                status, answer = handle(self.command, self.path, body) if is_known else (401, {"error": "no key"})
                if status == 0:  # The answer is lost.
                    self.close_connection = True
                    return
                if status == 1:  # No answer in HTTP.
                    self.wfile.write(b"garbage\r\n\r\n")
                    self.close_connection = True
                    return
                self.send_response(status)
                self.end_headers()
                if answer is not None:
                    self.wfile.write(json.dumps(answer).encode())

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"--api=http://127.0.0.1:{server.server_address[1]}"

    # Answers: https://docs.lambda.ai/api/cloud
    def lambda_cloud(self, instances, lose=()):
        lose = list(lose)

        def handle(method, path, body):
            if (method, path) == ("GET", "/instances"):
                return 200, {"data": list(instances.values())}
            if path == "/instance-operations/launch":
                if body["region_name"] == "full":
                    return 400, {"error": {"code": "instance-operations/launch/insufficient-capacity",
                                           "message": "Not enough capacity"}}
                if lose and lose.pop() == "before":
                    return 0, None
                name = f"{len(instances):032x}"
                instances[name] = {"id": name, "name": body["name"], "status": "booting", "tags": body["tags"],
                                   "body": body}
                return 200, {"data": {"instance_ids": [name]}}
            gone = [instances.pop(name) for name in body["instance_ids"]]
            return 200, {"data": {"terminated_instances": gone}}
        return self.serve(handle)

    def test_lambda(self):
        instances = {}
        options = [self.lambda_cloud(instances), "--region=us-east-1", "--ssh-key=mine"]
        self.lives_through("lambda", options)
        self.call("lambda", "create", options)
        (body,) = [one["body"] for one in instances.values()]
        self.assertIn(JOIN, body["user_data"])
        self.assertEqual((body["instance_type_name"], body["ssh_key_names"]), ("p5.48xlarge", ["mine"]))

    def test_lambda_has_no_capacity(self):
        options = [self.lambda_cloud({}), "--region=full", "--ssh-key=mine"]
        self.assertIn("HTTP 400: {\"error\": {\"code\": \"instance-operations/launch/insufficient-capacity\"",
                      self.refusal("lambda", "create", options))
        self.assertIn("HTTP 400", self.refusal("lambda", "create", options))  # It may be asked again at once.

    def test_lambda_request_with_an_unknown_outcome_is_not_repeated(self):
        instances = {}
        options = [self.lambda_cloud(instances, ["before"]), "--region=us-east-1", "--ssh-key=mine"]
        self.refusal("lambda", "create", options)
        self.assertIn("its outcome is not known", self.refusal("lambda", "create", options))
        self.assertEqual(instances, {})
        path = os.path.join(self.home, "provider-requests", "cloud." + TOKEN)
        os.utime(path, (1, 1))  # Long ago.
        self.call("lambda", "create", options)
        self.assertEqual(len(instances), 1)

    def test_wrong_key(self):
        self.write(self.credentials, "other\n")
        self.assertIn("HTTP 401", self.refusal("lambda", "list", [self.lambda_cloud({})]))

    def test_answer_that_is_no_http(self):
        api = self.serve(lambda *_: (1, None))
        self.assertEqual(self.refusal("lambda", "list", [api]),
                         f"GET {api.removeprefix('--api=')}/instances: garbage")

    def test_key_is_not_sent_in_clear(self):
        self.assertIn("expected an address that begins with https://",
                      self.refusal("lambda", "list", ["--api=http://example.org"]))

    # Answers: https://docs.runpod.io/api-reference-v2/pods
    def test_runpod(self):
        pods = {"pod_0": {"id": "pod_0", "name": "of somebody", "status": "RUNNING"}}

        def handle(method, path, body):
            if method == "GET":  # One pod on each page.
                at = int(path.partition("cursor=")[2] or 0)
                has_next = at + 1 < len(pods)
                return 200, {"pods": list(pods.values())[at:at + 1],
                             "pagination": {"hasNextPage": has_next, "nextCursor": str(at + 1) if has_next else None}}
            if method == "POST":
                name = f"pod_{len(pods)}"
                pods[name] = {"id": name, "name": body["name"], "status": "PROVISIONING", "body": body}
                return 201, pods[name]
            return (204, None) if pods.pop(path.rsplit("/", 1)[1], None) else (404, {"error": "not found"})

        options = [self.serve(handle), "--image=registry/divvy:1", "--gpu=NVIDIA H100 80GB HBM3"]
        self.lives_through("runpod", options)
        self.call("runpod", "create", options)
        body = pods["pod_1"]["body"]
        self.assertEqual(body["gpu"], {"id": "NVIDIA H100 80GB HBM3", "count": 8})
        self.assertEqual(body["env"], {"DIVVY_JOIN": JOIN})
        self.assertNotIn(JOIN, body["args"])
        self.assertIn("pod_0", pods)
        self.assertIn("spot pods are not supported",
                      self.refusal("runpod", "create", options, token=OTHER, is_spot=True))

    # --- The machine

    def test_script_of_a_machine_starts_the_agent(self):
        setup = os.path.join(self.folder.name, "setup")
        self.write(setup, "echo prepared\n")
        self.call("aws", "create", [f"--divvy-setup={setup}", "--divvy-path=/opt/divvy", "--divvy-user=ubuntu"])
        (machine,) = self.machines().values()
        script = machine["script"]
        self.assertEqual(subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode, 0)
        self.assertIn(f"mark=/var/lib/divvy-node.{TOKEN}\n", script)  # It survives a reboot, and is not part of images.
        self.assertIn("echo prepared", script)
        self.assertIn("--uid=ubuntu", script)
        self.assertIn("/opt/divvy agent --on-demand --name cloud-1 --join-file \"$home/join\"", script)


if __name__ == "__main__":
    unittest.main()
