#!/usr/bin/env bash
# A process of alice's outside of her job has the job's private /tmp open and fills it while it is removed. The job must
# still release its GPU.
. "$(dirname "$0")/lib.sh"
serve
unshare --mount true || skip "no mount namespace"
script_of alice fill.py <<'P'
#!/usr/bin/python3
# take SOCKET: creates folders in the folder that it receives, until that fails. give SOCKET: sends the job's /tmp to
# it.
import array, os, socket, sys
end = socket.socket(socket.AF_UNIX)
if sys.argv[1] == "give":
    end.connect(sys.argv[2])
    fd = os.open("/tmp", os.O_RDONLY)
    end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    sys.exit()
end.bind(sys.argv[2])
end.listen()
_, given, _, _ = end.accept()[0].recvmsg(1, socket.CMSG_SPACE(4))
fd = array.array("i", given[0][2][:4])[0]
print("begun", flush=True)
failed = number = 0
while failed < 1000:
    number += 1
    try:
        os.mkdir(str(number), dir_fd=fd)
        failed = 0
    except OSError:
        failed += 1
P
as alice ./fill.py take s >filled 2>&1 &
filling=$!
wait_for "the socket" test -S /var/lib/home/alice/s
job=$(as alice divvy submit --quiet --private-tmp --gpus 1 -- sh -c './fill.py give s; sleep 1000')
wait_for "the folder to be filled" grep -q begun filled
folder=$(sed -n 's/^own_tmp=//p' "/var/lib/divvy-launcher/runs/$job" | tail -n 1)
[ -d "$folder" ] || fail "the job has no /tmp of its own: $folder"
as alice divvy cancel --grace 0 "$job" >/dev/null
WAIT_S=5 wait_for "the end of the job" state_is "$job" cancelled
wait_for "the end of filling" sh -c "! kill -0 $filling 2>/dev/null"
wait_for "the removal of the folder" test ! -e "${folder%/tmp}"

# If the supervisor is killed, another process removes the folder.
job=$(as alice divvy submit --quiet --private-tmp --gpus 1 -- sh -c 'mkdir -p /tmp/a/b/c; sleep 1000')
wait_for "the job" state_is "$job" running
folder=$(sed -n 's/^own_tmp=//p' "/var/lib/divvy-launcher/runs/$job" | tail -n 1)
[ -d "$folder" ] || fail "the job has no /tmp of its own: $folder"
for who in guard supervisor process; do
  kill -9 "$(sed -n "s/^$who=\([0-9]*\) .*/\1/p" "/var/lib/divvy-launcher/runs/$job" | tail -n 1)" 2>/dev/null || true
done
wait_for "the removal of the folder of a job whose supervisor was killed" test ! -e "${folder%/tmp}"
