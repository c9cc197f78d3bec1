"""Commands, functions and arrays on a real daemon."""

import datetime
import os
import pickle

import functions
import pytest
from conftest import run, up, wait_until

import divvy
from divvy import _errors, _options


def test_a_command_line_runs_in_a_shell(client):
    job = client.submit("echo one; echo $((1 + 1)) two", name="counts")
    assert job.result(60) is None
    assert job.logs() == "one\n2 two\n"
    assert (job.state, job.exit_code, job.name, job.done()) == ("succeeded", 0, "counts", True)


def test_a_list_runs_without_a_shell(client):
    job = client.submit(["echo", "$HOME", "two  blanks"])
    job.wait(60)
    assert job.logs() == "$HOME two  blanks\n"


def test_a_path_is_a_script_with_its_own_options(client, tmp_path):
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH --gpus=2 --job-name=resnet\necho $CUDA_VISIBLE_DEVICES\n")
    job = client.submit(script)
    job.wait(60)
    assert job.name == "resnet"
    assert len(job.logs().split(",")) == 2


def test_the_job_has_the_environment_and_directory_of_its_submitter(client, tmp_path, monkeypatch):
    monkeypatch.setenv("OF_SUBMITTER", "seen")
    monkeypatch.chdir(tmp_path)
    job = client.submit("echo $OF_SUBMITTER $OF_OPTION $PWD", env={"OF_OPTION": "two  words"})
    job.wait(60)
    assert job.logs().split() == ["seen", "two", "words", str(tmp_path)]


def test_a_job_that_fails_raises_with_the_servers_reason(client):
    job = client.submit("exit 3")
    with pytest.raises(divvy.JobFailed) as failure:
        job.result(60)
    assert failure.value.exit_code == 3
    assert failure.value.reason == job.info()["reason"]
    assert isinstance(job.exception(), divvy.JobFailed)


def test_options_mean_what_those_of_divvy_submit_mean(client, full):
    job = client.submit(
        "true", gpus=0.25, gpu_limit=0.5, time=datetime.timedelta(minutes=90), priority=-1, after=full, hold=False
    )
    request = job.info()["request"]
    assert request["fraction"] == {**request["fraction"], "request": 0.25, "limit": 0.5}
    assert request["time_limit_s"] == 5400
    assert job.info()["priority"] == -1
    assert job.info()["dependencies"] == [f"afterany:{full.id}"]
    job.cancel()


def test_bad_options_carry_the_servers_message(client):
    with pytest.raises(divvy.InvalidRequest, match="--gpus"):
        client.submit("true", gpus="many")
    with pytest.raises(divvy.LimitExceeded, match="9 GPUs"):
        client.submit("true", gpus=9)
    with pytest.raises(divvy.InvalidRequest, match="has no unit"):
        client.submit("true", time=90)
    with pytest.raises(divvy.InvalidRequest, match="gpu_number"):
        client.submit("true", gpu_number=1)
    with pytest.raises(divvy.NotFound, match="999999"):
        client.job(999999)


@pytest.mark.parametrize("job", ["1\n# DIVVY --gpus=8", "1 2", " 1", "1\t", "1\x1b", "1\x85", "1\u2028", "", True])
def test_an_id_of_a_job_has_no_blanks_or_control_characters(job):
    for options in ({"after": job}, {"after_ok": [1, job]}):
        with pytest.raises(divvy.InvalidRequest, match="is not a job"):
            _options.option_words(options)


def test_an_exception_that_cannot_be_unpickled_keeps_its_traceback(client):
    job = client.submit(functions.fail_one_way)
    with pytest.raises(divvy.JobFailed) as failure:
        job.result(60)
    unreadable = failure.value.__cause__
    assert "cannot be unpickled here" in str(unreadable)
    assert "functions.OneWay: does not come back 7" in str(unreadable.__cause__)
    assert "in fail_one_way" in str(unreadable.__cause__)


def test_a_function_may_close_its_outputs(client):
    assert client.submit(functions.close_outputs).result(60) == 5


def test_every_error_can_be_pickled():
    errors = [kind for kind in vars(divvy).values() if isinstance(kind, type) and issubclass(kind, divvy.DivvyError)]
    assert len(errors) >= 11
    for kind in errors:
        error = kind("a\nb", "own_code") if kind is not divvy.JobFailed else kind("17_3", "failed", 2, "it's \x1b broken")
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.args, vars(again)) == (kind, str(error), error.args, vars(error))
    error = _errors.RemoteTraceback("line 1\nline 2")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error) and str(pickle.loads(pickle.dumps(error))) == str(error)


def test_why_and_cancel_of_a_waiting_job(client, full):
    job = client.submit("true", gpus=1)
    assert "GPU" in job.why()
    assert client.why(job)["blockers"][0]["holders"] == [int(full.id)]
    assert job.cancel()
    assert job.wait(60)["state"] == "cancelled"
    with pytest.raises(divvy.JobFailed, match="cancelled"):
        job.result()


def test_waiting_has_a_limit(client, full):
    job = client.submit("true", gpus=1)
    with pytest.raises(TimeoutError):
        job.wait(0.1)
    assert job.state == "queued"
    job.cancel()


def test_waiting_survives_a_restart_of_the_daemon(client, home):
    job = client.submit(f"while [ ! -e {home}/continue ]; do sleep 0.05; done")
    wait_until(lambda: job.state == "running")
    run("down")
    up()
    (home / "continue").touch()
    assert job.wait(60)["state"] == "succeeded"


def test_a_preview_submits_nothing(client, full):
    before, calls = client.status()["jobs_total"], os.listdir(client.folder)
    forecast = client.preview("true", gpus=1)
    assert "1 GPU" in forecast["summary"]
    assert client.preview(functions.add, 1, gpus=1)["summary"]
    assert client.status()["jobs_total"] == before
    assert os.listdir(client.folder) == calls


def test_a_waiting_job_has_no_output_yet(client, full):
    job = client.submit("true", gpus=1)
    assert job.logs() == ""
    job.cancel()


def test_output_is_followed_until_the_end(client, home):
    job = client.submit(f"echo first; while [ ! -e {home}/go-on ]; do sleep 0.05; done; printf 'second\\nlast'")
    lines = job.follow()
    assert next(lines) == "first"
    (home / "go-on").touch()
    assert list(lines) == ["second", "last"]
    assert job.logs(last=1) == "last"


def test_a_function_returns_its_value(client):
    job = client.submit(functions.add, 2, b=3, gpus=1)
    assert job.result(60) == 5
    assert job.logs() == "adds 2 and 3 for none\n"
    assert job.name == "add"
    assert client.job(job.id).result() == 5, "the result is found without the object that submitted"


def test_call_binds_arguments_with_names_of_options(client):
    job = client.submit(divvy.call(functions.add, 1, name="ada"), name="other")
    assert job.result(60) == 1
    assert (job.name, job.logs()) == ("other", "adds 1 and 0 for ada\n")


def test_an_exception_of_the_function_is_raised_here(client):
    job = client.submit(functions.fail, 7)
    with pytest.raises(functions.Unfit) as failure:
        job.result(60)
    assert failure.value.number == 7
    assert "in fail" in str(failure.value.__cause__)
    assert job.state == "failed"
    assert "Unfit" in job.logs()


def test_a_result_that_cannot_be_pickled_says_so(client):
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        with pytest.raises(divvy.JobFailed) as failure:
            client.submit(functions.unpicklable).result(60)
        assert "cannot be pickled" in str(failure.value.__cause__)


def test_a_function_that_is_killed_has_no_result(client):
    with pytest.raises(divvy.JobFailed, match="SIGKILL|signal|137"):
        client.submit(functions.kill_self).result(60)


def test_a_function_without_a_name_needs_cloudpickle(client):
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        with pytest.raises(divvy.InvalidRequest, match="cloudpickle"):
            client.submit(lambda: 1)
    else:
        assert client.submit(lambda: 1).result(60) == 1


def test_map_is_one_array(client):
    array = client.map(functions.add, range(5), range(0, 50, 10), at_once=2, gpus=1)
    assert array.results(120) == [0, 11, 22, 33, 44]
    assert len(array) == 5 and array[3].result() == 33
    assert client.info(array.job)["elements"]["succeeded"] == 5
    assert client.map(functions.add, []).results() == []


def test_a_sweep_has_elements(client):
    job = client.submit("echo {lr}", param={"lr": [0.1, "1,5"]})
    job.wait(60)
    assert [element.logs() for element in job.elements()] == ["0.1\n", "1,5\n"]


def test_actions_and_updates(client, full):
    job = client.submit("true", gpus=1, time="1h")
    job.hold()
    assert job.state == "held"
    job.update(time_limit_s=60, name="renamed")
    assert (job.info()["request"]["time_limit_s"], job.name) == (60, "renamed")
    job.release()
    assert job.state == "queued"
    assert [row["id"] for row in client.queue(name="renamed")] == [int(job.id)]
    with pytest.raises(divvy.DivvyError):
        client.job(full.id).update(gpus=1)
    assert client.cancel([job, full.id], grace=0)[0]["is_done"]


def test_metrics_and_progress_from_inside(client):
    job = client.submit(functions.report_all, gpus=1)
    assert job.result(60) == ((True, True), job.id)
    assert job.info()["progress"]["fraction"] == 0.75


def test_reports_outside_of_a_job_do_nothing():
    assert not divvy.report(loss=1)
    assert not divvy.progress(0.5)
    assert divvy.job_id() is None
    with pytest.raises(divvy.InvalidRequest):
        divvy.progress(2)


def test_an_elastic_job_grows_and_gives_back(client, home, tmp_path):
    count = tmp_path / "count"
    other = client.submit("sleep 1000", gpus=4, name="other")
    job = client.submit(functions.take_part, str(count), gpus="2..8")
    wait_until(lambda: count.exists() and count.read_text() == "4")
    other.cancel(grace=0)  # Its GPUs go to the elastic job.
    wait_until(lambda: count.read_text() == "8")
    waiting = client.submit("true", gpus=5)
    assert waiting.wait(60)["state"] == "succeeded"
    assert job.result(60) is None

