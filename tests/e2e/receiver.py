"""A webhook receiver for tests: stores each request as a line of JSON, and answers 500 as often as FAILS_FILE says.

receiver.py PORT_FILE GOT_FILE FAILS_FILE [PORT]     serves
receiver.py --check GOT_FILE SECRET                  exits with 0 if every request in the file is signed with the secret
"""
import base64, hashlib, hmac, http.server, json, os, sys


def check(got, secret):
    key = base64.b64decode(secret[len("whsec_"):]) if secret.startswith("whsec_") else secret.encode()
    requests = [json.loads(line) for line in open(got)]
    for request in requests:
        headers = {name.lower(): value for name, value in request["headers"].items()}
        signed = "%s.%s.%s" % (headers["webhook-id"], headers["webhook-timestamp"], request["body"])
        wanted = "v1," + base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
        if headers.get("webhook-signature") != wanted or json.loads(request["body"])["id"] != headers["webhook-id"]:
            sys.exit("not signed: %r" % request)
    if not requests:
        sys.exit("no request")


def serve(port_file, got, fails, port=0):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            left = int(open(fails).read()) if os.path.exists(fails) else 0
            status = 500 if left > 0 else 204
            if left > 0:
                with open(fails, "w") as file:
                    file.write(str(left - 1))
            with open(got, "a") as file:
                file.write(json.dumps({"status": status, "path": self.path, "headers": dict(self.headers), "body": body}) + "\n")
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    http.server.HTTPServer.allow_reuse_address = True
    server = http.server.HTTPServer(("127.0.0.1", int(port)), Handler)
    with open(port_file + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()


if sys.argv[1] == "--check":
    check(sys.argv[2], sys.argv[3])
else:
    serve(*sys.argv[1:])
