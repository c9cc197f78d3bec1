#!/usr/bin/env bash
# alice sends escape sequences to the terminals of others: in the names, comments, labels and paths of her jobs, and
# through the store of an older release, which accepted such names.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip "no curl"
command -v sqlite3 >/dev/null || skip "sqlite3 is not installed (apt-get install sqlite3)"
serve
evil=$'evil\e]52;c;cHduZWQ=\a\e[2K\nrow'
# refused FIELD: submits a job with control characters in that field through the API.
refused() {
  local answer
  answer=$(as alice curl -sS --unix-socket /run/divvy/divvy.sock --data-binary \
    "{\"spec\": {\"command\": [\"true\"], \"is_held\": true, \"directory\": \"/\", $1}}" http://divvy/v1/jobs)
  grep -qF "it holds the control character \\\\x1b; one line of text" <<<"$answer" || fail "$1 is answered: $answer"
}
json='evil\u001b]52;c;cHduZWQ=\u0007\u001b[2K\nrow'
for name in name comment project group team account pool output error input; do refused "\"$name\": \"$json\""; done
refused "\"directory\": \"/$json\""
refused "\"labels\": {\"slurm.qos\": \"$json\"}"
refused "\"labels\": {\"$json\": \"x\"}"
as alice divvy submit --hold --name "$evil" -- true >answer 2>&1 && fail "divvy submit takes the name"
! grep -q $'\e' answer || fail "the refusal speaks to the terminal: $(cat -v answer)"
job=$(as alice divvy submit --quiet --hold --name harmless -- true)
as alice divvy update "$job" --name "$evil" >/dev/null 2>&1 && fail "divvy update takes the name"
as alice divvy update "$job" --comment "$evil" >/dev/null 2>&1 && fail "divvy update takes the comment"

# As an older release may have stored it.
divvy down >/dev/null
database=$(ls /var/lib/divvy/*.db | grep -v samples | head -n 1)
sqlite3 "$database" "UPDATE jobs SET name = 'evil' || char(27) || ']52;c;cHduZWQ=' || char(7) || char(10) || 'row' || char(155) || 'x',
  comment = char(27) || '[2J', reason = 'held' || char(27) || '[31m' WHERE id = $job;"
divvy up --quiet --emulate 4xA100-40GB
divvy shims shims >/dev/null
shown() { # COMMAND...: prints the job's line without control sequences.
  "$@" >shown 2>&1 || fail "$* fails: $(cat -v shown)"
  grep -q evil shown || fail "$* does not show the job: $(cat -v shown)"
  ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' shown || fail "$* speaks to the terminal: $(cat -v shown)"
  ! grep -q ^row shown || fail "$* shows a row that there is not: $(cat -v shown)"
}
shown divvy queue
shown divvy queue --csv
shown divvy queue --json
shown divvy show "$job"
shown divvy show "$job" --json
shown divvy why "$job"
shown divvy top --once
shown shims/squeue -o "%i %j %k"
shown shims/scontrol show job "$job"
divvy cancel "$job" >/dev/null
wait_for "an empty queue" queue_is_empty
shown divvy queue --all
shown shims/sacct -a -X -o JobID,JobName%60,Comment
shown divvy report usage --by name
