#!/usr/bin/env python3
"""Optuna chooses the values of a sweep, and divvy runs its trials.

    divvy sweep run --method ask --draw x=uniform:-5:5 --draw y=uniform:-5:5 --trials 30 --parallel 4 \
        --metric loss --quiet -- python3 train.py {x} {y}
    python3 examples/sweep-optuna.py SWEEP

The search space of the sweep names the parameters; their ranges are below, because the sweep takes any value.
`divvy sweep ask` waits until another trial can start; a restart of divvy or of this program loses nothing.
"""
import json
import subprocess
import sys

import optuna

SPACE = {
    "x": optuna.distributions.FloatDistribution(-5, 5),
    "y": optuna.distributions.FloatDistribution(-5, 5),
}


def divvy(*words):
    return subprocess.run(["divvy", "sweep", *words], check=True, capture_output=True, text=True).stdout


def main(sweep):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    known, asked = set(), {}
    while True:
        state = json.loads(divvy("ask", sweep))
        for trial in state["list"]:
            is_over = trial["state"] not in ("waiting", "running", "paused")
            if not is_over or trial["trial"] in known:
                continue
            # The last output of a trial is read a moment after its end.
            if trial["best"] is None and state["state"] != "ended":
                continue
            known.add(trial["trial"])
            if trial["trial"] in asked:
                state_of = optuna.trial.TrialState.COMPLETE if trial["best"] is not None else optuna.trial.TrialState.FAIL
                study.tell(asked.pop(trial["trial"]), trial["best"], state=state_of)
                continue
            if trial["best"] is None:
                continue
            # Told by an earlier run of this program.
            values = {name: float(trial["parameters"][name]) for name in SPACE}
            study.add_trial(optuna.trial.create_trial(params=values, distributions=SPACE, value=trial["best"]))
        if state["state"] == "ended":
            print(json.dumps({"best": study.best_value, **study.best_params}))
            return
        trial = study.ask(SPACE)
        number = divvy("tell", sweep, *(f"{name}={value}" for name, value in trial.params.items()))
        asked[int(number)] = trial


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: sweep-optuna.py SWEEP")
    main(sys.argv[1])
