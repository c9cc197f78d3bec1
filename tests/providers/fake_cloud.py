#!/usr/bin/env python3
"""Stands in for the command-line tools of clouds, under their names: aws, gcloud, az, ssh, and wake for hosts.

It accepts the options that the tools document, keeps the machines in $FAKE_STATE, and answers as the tools do:
  https://docs.aws.amazon.com/cli/latest/reference/ec2/run-instances.html, describe-instances.html,
    describe-spot-instance-requests.html, terminate-instances.html
  https://cloud.google.com/sdk/gcloud/reference/compute/instances/create, list, delete
  https://learn.microsoft.com/cli/azure/vm
$FAKE_STATE/fail has a tool that fails before (1) or after (2) it has done its work: "aws 2"; or a verb: "list 1".
"""
import json
import os
import stat
import sys

STATE = os.environ["FAKE_STATE"]
DOCUMENTED = {
    "aws run-instances": "output count client-token user-data instance-initiated-shutdown-behavior metadata-options "
                         "tag-specifications instance-type instance-market-options image-id region subnet-id",
    "aws describe-instances": "output filters region",
    "aws describe-spot-instance-requests": "output filters region",
    "aws terminate-instances": "output instance-ids region",
    "gcloud create": "quiet format labels metadata-from-file maintenance-policy machine-type provisioning-model "
                     "max-run-duration instance-termination-action zone project accelerator image-family image-project",
    "gcloud list": "quiet format filter project",
    "gcloud delete": "quiet format zone project",
    "az show": "", "az clear": "", "az login": "identity service-principal username password tenant output",
    "az create": "output name custom-data no-wait generate-ssh-keys admin-username os-disk-delete-option "
                 "nic-delete-option tags size priority eviction-policy public-ip-address nsg resource-group image",
    "az list": "output resource-group", "az delete": "output yes no-wait name resource-group",
}


def load():
    try:
        with open(os.path.join(STATE, "machines"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def save(machines):
    with open(os.path.join(STATE, "machines"), "w", encoding="utf-8") as file:
        json.dump(machines, file)


def options_in(words):
    """The options, and the words without dashes after the last of them, as the tools read both spellings."""
    options, name = {}, None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name] = [value] if equals else []
        elif name:
            options[name].append(word)
    return options


def main():
    tool = os.path.basename(sys.argv[0])
    words = sys.argv[1:]
    with open(os.path.join(STATE, "calls"), "a", encoding="utf-8") as log:
        log.write(json.dumps([tool, *words]) + "\n")
    if tool in ("ssh", "wake"):
        return remote(tool, words)
    verb = next(word for word in words[(0 if words[0] == "login" else 2 if tool == "gcloud" else 1):])
    options = options_in(words)
    unknown = set(options) - set(DOCUMENTED[f"{tool} {verb}"].split())
    if unknown:
        sys.exit(f"Unknown options: {unknown}")
    fail = open(os.path.join(STATE, "fail"), encoding="utf-8").read().split() if os.path.exists(
        os.path.join(STATE, "fail")) else ["", ""]
    changes = verb in ("run-instances", "create", "terminate-instances", "delete")
    if fail[0] == verb:
        sys.exit("\nAn error occurred (UnauthorizedOperation): you may not do that\n")
    if changes and fail == [tool, "1"]:
        sys.exit("\nAn error occurred (InsufficientInstanceCapacity): there is no capacity\n")
    machines = load()
    answer = globals()[tool](verb, options, words, machines)
    save(machines)
    if changes and fail == [tool, "2"]:
        sys.exit("the connection was closed")
    if answer is not None:
        print(json.dumps(answer))


def user_data(path):
    """The tools read a file. The Azure CLI takes the option as text if it is no regular file."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        sys.exit(f"{path} is no regular file")
    with open(path, encoding="utf-8") as file:
        return file.read()


def aws(verb, options, _, machines):
    if verb == "run-instances":
        script = user_data(options["user-data"][0].removeprefix("file://"))
        token = options["client-token"][0]
        for name, one in machines.items():
            if one["ClientToken"] == token:
                if one["script"] != script:
                    sys.exit("\nAn error occurred (IdempotentParameterMismatch) when calling the RunInstances "
                             "operation: Arguments on this idempotent request are inconsistent")
                return {"Instances": [{"InstanceId": name}]}
        tags = options["tag-specifications"][0].split("Tags=[")[1].rstrip("]")
        pairs = [dict(part.split("=", 1) for part in one.strip("{}").split(",")) for one in tags.split("},{")]
        name = f"i-{len(machines):017x}"
        machines[name] = {"ClientToken": token, "script": script, "Tags": pairs, "State": {"Name": "pending"},
                          "type": options["instance-type"][0], "is_spot": "instance-market-options" in options}
        return {"ReservationId": "r-1", "OwnerId": "1", "Groups": [], "Instances": [{"InstanceId": name}]}
    if verb == "describe-instances":
        cluster = options["filters"][0].split("Values=")[1]
        found = [{"InstanceId": name, "State": one["State"], "Tags": one["Tags"],
                  **({"InstanceLifecycle": "spot"} if one["is_spot"] else {})} for name, one in machines.items()
                 if {"Key": "divvy-cluster", "Value": cluster} in one["Tags"] and not one.get("terminated")]
        return {"Reservations": [{"Groups": [], "Instances": [one]} for one in found]}
    if verb == "describe-spot-instance-requests":
        wanted = options["filters"][0].split("Values=")[1].split(",")
        if len(wanted) > 200:
            sys.exit("\nAn error occurred (FilterLimitExceeded): the maximum number of filter values is 200")
        return {"SpotInstanceRequests": [
            {"InstanceId": name, "State": "active",
             "Status": {"Code": "marked-for-termination" if machines[name].get("marked") else "fulfilled",
                        "UpdateTime": "2026-11-28T10:00:00.000Z"}} for name in wanted]}
    name = options["instance-ids"][0]
    machines[name]["terminated"] = True  # EC2 remembers the token of a terminated instance.
    return {"TerminatingInstances": [{"InstanceId": name, "CurrentState": {"Name": "shutting-down"}}]}


def gcloud(verb, options, words, machines):
    if verb == "create":
        name = words[3 + words[3:].index(next(w for w in words[3:] if not w.startswith("--")))]
        if name in machines:
            sys.exit(f"ERROR: (gcloud.compute.instances.create) The resource '{name}' already exists")
        key, path = options["metadata-from-file"][0].split("=")
        assert key == "startup-script"
        labels = dict(pair.split("=") for pair in options["labels"][0].split(","))
        machines[name] = {"labels": labels, "script": user_data(path), "zone": options["zone"][0], "options": options}
        return [{"name": name, "zone": machines[name]["zone"], "status": "RUNNING"}]
    if verb == "list":
        key, value = options["filter"][0].removeprefix("labels.").split("=")
        base = "https://www.googleapis.com/compute/v1/projects/p/zones/"
        return [{"name": name, "zone": base + one["zone"], "labels": one["labels"], "status": "RUNNING"}
                for name, one in machines.items() if one["labels"][key] == value]
    name = next(word for word in words[3:] if not word.startswith("--"))
    if machines.pop(name)["zone"] != options["zone"][0]:
        sys.exit("ERROR: the resource was not found")
    return None


def az(verb, options, _, machines):
    login = os.path.join(os.environ["AZURE_CONFIG_DIR"], "login")
    if verb == "login":
        password = options["password"][0]
        if not password.startswith("@") or not user_data(password[1:]).startswith("a-secret"):
            sys.exit("invalid client secret")
        with open(login, "w", encoding="utf-8"):
            return None
    if not os.path.exists(login):
        sys.exit("ERROR: Please run 'az login' to setup account.")
    if verb == "show":
        return {"state": "Enabled"}
    if verb == "clear":
        os.unlink(login)
        return None
    if verb == "create":
        name = options["name"][0]
        if name in machines:
            sys.exit("(PropertyChangeNotAllowed) Changing property 'osProfile.customData' is not allowed.")
        machines[name] = {"tags": dict(tag.split("=") for tag in options["tags"]),
                          "script": user_data(options["custom-data"][0]), "options": options}
        return None
    if verb == "list":
        return [{"name": name, "tags": one["tags"], "provisioningState": "Succeeded"} for name, one in machines.items()]
    machines.pop(options["name"][0])
    return None


def remote(tool, words):
    """A host is on after `wake HOST`. The script is run with the folder of the host in place of /var/tmp."""
    if tool == "wake":
        if os.path.exists(os.path.join(STATE, "no-wake")):
            sys.exit("no such interface")
        os.makedirs(os.path.join(STATE, words[0]), exist_ok=True)
        return
    host = words[-2].rpartition("@")[2]
    folder = os.path.join(STATE, host)
    if not os.path.isdir(folder):
        sys.exit(f"ssh: connect to host {host} port 22: No route to host")
    with open(os.path.join(folder, "scripts"), "a", encoding="utf-8") as log:
        log.write(sys.stdin.read())


if __name__ == "__main__":
    main()
