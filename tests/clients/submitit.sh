# submitit: jobs of two tasks, an array, cancellation, and checkpoints that are requeued on USR2 and at the time limit.
JOBS=20 "$(dirname "$0")/../../scripts/test-submitit" "$CLIENTS_ENVIRONMENT"
