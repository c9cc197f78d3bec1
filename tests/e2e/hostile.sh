#!/usr/bin/env bash
# Attackers at the controller's port, with real connections: no TLS, garbage, no certificate, wrong and valid tokens
# with invalid or oversized frames, silence, and many connections that send one byte per second. Each is disconnected in
# time. Nodes, jobs and command lines are not affected, and the token keeps its use.
. "$(dirname "$0")/lib.sh"
command -v openssl >/dev/null || skip "openssl is not installed (apt-get install openssl)"
python3 -c 'import ssl' 2>/dev/null || skip "python3 is not installed (apt-get install python3)"
port=
up_listening
with_machines
divvy token create --node >n1.token 2>/dev/null
divvy token create --node >n2.token 2>/dev/null
divvy token create >user.token 2>/dev/null
chmod 600 user.token
on n1 agent --join-file "$DIVVY_HOME/n1.token" --name n1 --emulate 4xA100-40GB --detach --quiet || fail "n1 did not join"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=stranger -keyout stranger.key -out stranger.crt 2>/dev/null ||
  fail "no certificate was made"

cat >strangers.py <<'PY'
import socket, ssl, struct, sys, threading, time

port = int(sys.argv[1])
good = open("n2.token").read().split("#")[1].rsplit(".", 1)[0].strip()  # ID.SECRET
failures = []
CUT_WITHIN = 40  # The limit is 20 s; a busy machine may take longer.


def plain():
    return socket.create_connection(("127.0.0.1", port))


def tls(certificate=True):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate:
        context.load_cert_chain("stranger.crt", "stranger.key")
    return context.wrap_socket(plain())


def upgrade(token):
    return ("GET /v1/agents/connect HTTP/1.1\r\nHost: d\r\nConnection: Upgrade\r\nUpgrade: divvy-agent/1\r\n"
            "Authorization: Bearer %s\r\n\r\n" % token).encode()


def what_comes(connection, within):
    """All bytes until the other side ends the connection; None: it does not."""
    connection.settimeout(within)
    got = b""
    try:
        while True:
            part = connection.recv(65536)
            if not part:
                return got
            got += part
    except socket.timeout:
        return None
    except OSError:
        return got


def expect(name, connection, within, words=b""):
    got = what_comes(connection, within)
    if got is None:
        failures.append(name + ": it was not cut off within %s s" % within)
    elif words not in got:
        failures.append("%s: wanted %r in %r" % (name, words, got[:400]))


def switched(token):
    connection = tls()
    connection.sendall(upgrade(token))
    connection.settimeout(CUT_WITHIN)
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(4096)
        if not part:
            failures.append("a good token was not let in: %r" % got)
            break
        got += part
    return connection


def garbage_without_tls():
    connection = plain()
    connection.sendall(b"\x00\xff" * 50000)
    expect("garbage without TLS", connection, CUT_WITHIN)


def http_without_tls():
    connection = plain()
    connection.sendall(b"GET /v1/status HTTP/1.1\r\nHost: d\r\n\r\n")
    expect("HTTP without TLS", connection, CUT_WITHIN)


def no_certificate():
    connection = tls(certificate=False)
    connection.sendall(upgrade(good))
    connection.settimeout(CUT_WITHIN)
    got = connection.recv(65536)
    if b"certificate" not in got or b"101" in got[:20]:
        failures.append("an agent without a certificate was answered %r" % got)


def wrong_token():
    connection = tls()
    connection.sendall(upgrade("0" * 8 + "." + "1" * 64))
    connection.settimeout(CUT_WITHIN)
    got = connection.recv(65536)
    if b"is unknown to this controller" not in got:
        failures.append("a wrong token was answered %r" % got)


def large_frame():
    connection = switched(good)
    connection.sendall(struct.pack(">IBB", 2 << 20, 1, 0))
    expect("a frame of 2 MiB before it is known who comes", connection, 10)


def no_hello():
    connection = switched(good)
    connection.sendall(struct.pack(">IBB", 4, 1, 0) + b"{}")
    expect("a frame that is no Hello", connection, 10)


def huge_header():
    connection = tls(certificate=False)
    try:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (4 << 20))
    except OSError:
        pass
    expect("a header of 4 MiB", connection, CUT_WITHIN)


def silence():
    expect("silence after the upgrade", switched(good), CUT_WITHIN)


def a_byte_a_second():
    connection = tls(certificate=False)
    connection.settimeout(1)
    end = time.time() + CUT_WITHIN
    try:
        for byte in b"GET /v1/status HTTP/1.1\r\nHost: " + b"d" * 1000:
            if time.time() > end:
                failures.append("a byte a second was heard for %s s" % CUT_WITHIN)
                return
            connection.sendall(bytes([byte]))
            try:
                if not connection.recv(1):
                    return
            except socket.timeout:
                pass
    except OSError:
        pass


threads = [threading.Thread(target=one) for one in
           [garbage_without_tls, http_without_tls, no_certificate, wrong_token, large_frame, no_hello, huge_header, silence] +
           [a_byte_a_second] * 40]
for thread in threads:
    thread.start()
open("attacking", "w").close()
for thread in threads:
    thread.join()
print("\n".join(failures))
sys.exit(1 if failures else 0)
PY
python3 strangers.py "$port" >strangers.log 2>&1 &
strangers=$!
is_there() { [ -e "$1" ]; }
wait_for "the strangers" is_there attacking

# Meanwhile commands work: here, from another machine, and for a job on a node.
expect one "$(divvy run -- echo one)" "a job here"
expect two "$(divvy run --gpus 1 --nodelist n1 -- echo two)" "a job on n1"
(unset DIVVY_HOME && DIVVY_CONTROLLER=$PWD/user.token divvy nodes >far) || fail "a command line elsewhere is not answered"
grep -q '^n1 *up' far || fail "it is told: $(cat far)"
wait $strangers || fail "strangers: $(cat strangers.log)"
node_is n1 up || fail "n1 is $(node_state n1)"
expect "" "$(node_state stranger)" "a node that nobody let in"

# The token that the attackers had still works for its node.
on n2 agent --join-file "$DIVVY_HOME/n2.token" --name n2 --emulate 1xA100-40GB --detach --quiet || fail "n2 did not join"
node_is n2 up || fail "n2 is $(node_state n2)"
echo "hostile: all hostile connections were closed"
