#include "daemon/services/haproxy_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "base/text.h"
#include "daemon/services/request_times.h"

namespace divvy {
namespace {

// The action `hold` lets a request wait until the backend has a ready replica: nbsrv, the number of ready servers, is
// not 0. After a reload, the old HAProxy process stops: it gets no news of replicas, and its nbsrv is 0. So it marks
// the server `next` as ready. This is the new process, which listens on the same port, and gets the request.
constexpr std::string_view kHold = R"(core.register_action("hold", {"http-req"}, function(txn, seconds)
  local name = txn.f:be_name()
  local last = core.now().sec + tonumber(seconds)
  local pause = 20
  while txn.f:nbsrv(name) == 0 do
    if txn.f:stopping() == 1 then
      core.backends[name].servers["next"]:set_ready()
      return
    end
    if core.now().sec >= last then
      txn:set_var("txn.held_out", true)
      return
    end
    core.msleep(pause)
    pause = math.min(math.ceil(pause * 1.1), 250)
  end
end, 1)
)";

constexpr int kMostHeld = 1000;  // Requests of one service without a ready replica.

std::string Milliseconds(double seconds) { return std::to_string(std::llround(seconds * 1000)) + "ms"; }

void AddBackend(const FrontPlace& place, const FrontService& served, bool is_canary, std::string& text) {
  const wire::ServiceSettings& service = served.settings;
  const std::string backend = is_canary ? CanaryBackendOf(service.name) : BackendOf(service.name);
  text += "\nbackend " + backend + "\n  balance leastconn\n  timeout queue " + Milliseconds(service.wait_s) +
          "\n  timeout server " + Milliseconds(service.answer_within_s) + "\n";
  if (is_canary) {
    text += "  # Revision " + std::to_string(served.canary_revision) + "\n";
    if (!served.tokens.empty()) text += "  http-request del-header authorization\n";
  } else {
    text +=
        "  http-request return status 503 hdr Retry-After 5 content-type text/plain string \"Too many requests wait "
        "for "
        "a "
        "replica.\\n\" if { nbsrv(" +
        backend + ") eq 0 } { be_conn(" + backend + ") gt " + std::to_string(kMostHeld) + " }\n";
    text += "  http-request lua.hold " + std::to_string(std::llround(std::ceil(service.wait_s))) + " if { nbsrv(" +
            backend + ") eq 0 }\n";
    text +=
        "  http-request return status 503 hdr Retry-After 5 content-type text/plain string \"No replica was ready in "
        "time.\\n\" if { var(txn.held_out) -m bool }\n"
        "  use-server next if { srv_is_up(" +
        backend + "/next) }\n";
    // The token is not shown to replicas, which do not need it. If the server `next` is up, this HAProxy is an old one
    // that passes its requests on to the one that replaces it, and that one checks the token.
    if (!served.tokens.empty())
      text += "  http-request del-header authorization unless { srv_is_up(" + backend + "/next) }\n";
  }
  text +=
      "  http-request disable-l7-retry unless { method GET HEAD OPTIONS PUT DELETE TRACE }\n"
      "  retry-on conn-failure empty-response\n";
  if (!service.health.empty())
    text +=
        "  option httpchk\n  http-check send meth GET uri " + service.health + "\n  http-check expect status 200-399\n";
  const std::string most = std::to_string(service.concurrency);
  for (std::int64_t slot = 1; slot <= served.slots; ++slot)
    text += "  server r" + std::to_string(slot) + " 127.0.0.1:1 disabled maxconn " + most +
            " check inter 2s fastinter 500ms downinter 500ms fall 3 rise 1\n";
  if (is_canary) return;
  const std::string own = place.listen_host == "0.0.0.0" ? "127.0.0.1" : place.listen_host;
  text += "  server next " + own + ":" + std::to_string(service.port) + " disabled" +
          (served.certificate.empty() ? "" : " ssl verify none") + "\n";
}

/// Returns the connections that all services of one user may have: each user finds room, whatever the others do.
std::int64_t ShareOfUser(const FrontPlace& place, const std::vector<FrontService>& services) {
  std::set<std::int64_t> users;
  for (const FrontService& service : services) users.insert(service.uid);
  return std::max<std::int64_t>(place.most_connections / std::max<std::int64_t>(4, std::ssize(users)), 10);
}

void AddService(const FrontPlace& place, const FrontService& served, std::int64_t share, std::string& text) {
  const wire::ServiceSettings& service = served.settings;
  const std::string port = std::to_string(service.port);
  const std::string tls = served.certificate.empty() ? "" : " ssl crt " + served.certificate + " ssl-min-ver TLSv1.2";
  const std::string most_of_user = std::to_string(share);
  text += "\nfrontend f_" + service.name + "\n  bind " + place.listen_host + ":" + port + tls + "\n";
  if (!place.listen_host6.empty()) text += "  bind [" + place.listen_host6 + "]:" + port + tls + " v6only\n";
  text += "  maxconn " + most_of_user + "\n  tcp-request connection track-sc0 int(" + std::to_string(served.uid) +
          ") table users\n  tcp-request connection reject if { sc0_conn_cur gt " + most_of_user +
          " }\n  log global\n  option dontlognull\n  log-format \"" + std::string(RequestLogFormat()) + "\"\n";
  // Only hashes are compared, so the time that it takes tells nothing about a token.
  if (!served.tokens.empty())
    text +=
        "  http-request return status 401 hdr WWW-Authenticate Bearer content-type text/plain string \"A token of this "
        "service is needed: Authorization: Bearer TOKEN\\n\" unless { http_auth_bearer,sha2(256),hex -m str -f " +
        served.tokens + " }\n";
  if (service.max_body_bytes > 0) {
    const std::string most = std::to_string(service.max_body_bytes);
    text += "  http-request return status 413 content-type text/plain string \"The body of a request may have " + most +
            " bytes here.\\n\" if { req.body_size gt " + most + " }\n";
  }
  // Each request is decided by chance. Without a ready canary, all go to the others.
  if (served.canary_share > 0)
    text += "  use_backend " + CanaryBackendOf(service.name) + " if { rand(10000) lt " +
            std::to_string(std::llround(served.canary_share * 10'000)) + " } { nbsrv(" + CanaryBackendOf(service.name) +
            ") gt 0 }\n";
  text += "  default_backend " + BackendOf(service.name) + "\n";
  AddBackend(place, served, false, text);
  if (served.canary_share > 0) AddBackend(place, served, true, text);
}

/// The columns of "show stat" that are used.
enum Field { kProxy, kServer, kQueued, kInFlight, kRequests, kErrors, kStatus, kQueueMs, kAnswerMs, kFailed, kFields };
constexpr std::array<std::string_view, kFields> kTitles = {"# pxname", "svname", "qcur",  "scur",  "stot",
                                                           "hrsp_5xx", "status", "qtime", "rtime", "chkfail"};

/// Takes the first line from `csv` and returns its fields. HAProxy quotes a field with a comma, such as the reason that
/// a replica gives with its status.
std::vector<std::string_view> TakeRow(std::string_view& csv) {
  std::vector<std::string_view> fields;
  for (char after = ','; after == ',';) {
    std::size_t end = 0;
    if (csv.starts_with('"')) {
      end = csv.find('"', 1);
      while (end < csv.size() && csv.substr(end + 1).starts_with('"')) end = csv.find('"', end + 2);
    }
    end = std::min(csv.find_first_of(",\n", end), csv.size());
    fields.push_back(csv.substr(0, end));
    after = end < csv.size() ? csv[end] : '\n';
    csv.remove_prefix(std::min(end + 1, csv.size()));
  }
  return fields;
}

}  // namespace

std::int64_t SlotsOf(const wire::ServiceSettings& settings) { return settings.max_replicas * 2 + 2; }

std::string BackendOf(std::string_view service) { return "s_" + std::string(service); }

std::string CanaryBackendOf(std::string_view service) { return "c_" + std::string(service); }

std::string_view HoldScript() { return kHold; }

std::string HaproxyConfig(const FrontPlace& place, const std::string& socket,
                          const std::vector<FrontService>& services) {
  // idle-close-on-response: a process that stops answers one more request on each idle connection. Otherwise it could
  // close the connection while a request is on its way.
  std::string text =
      "# Written by divvy; changes are lost.\nglobal\n  stats socket " + socket +
      " mode 600 level admin expose-fd listeners\n  stats timeout 1h\n  lua-load " + place.directory +
      "/hold.lua\n  log fd@" + std::to_string(kFrontLogFd) +
      " len 256 format raw local0\n  nbthread 1\n  hard-stop-after 1h\n  maxconn " +
      std::to_string(place.most_connections) +
      "\n\ndefaults\n  mode http\n  timeout connect 2s\n  timeout client 1m\n  timeout http-request 10s\n"
      "  timeout http-keep-alive 30s\n  timeout tunnel 1h\n  retries 3\n  option redispatch 1\n"
      "  option http-keep-alive\n  option idle-close-on-response\n  http-reuse safe\n";
  text += "\nbackend users\n  stick-table type integer size 100k store conn_cur\n";
  const std::int64_t share = ShareOfUser(place, services);
  for (const FrontService& service : services) AddService(place, service, share, text);
  return text;
}

std::map<std::string, std::int64_t> SlotsIn(std::string_view config) {
  constexpr std::string_view kBackend = "backend ";
  std::map<std::string, std::int64_t> slots;
  std::int64_t* count = nullptr;
  for (const std::string_view line : Split(config, '\n')) {
    if (line.starts_with("backend users")) count = nullptr;
    else if (line.starts_with(kBackend)) count = &slots[std::string(line.substr(kBackend.size()))];
    else if (count != nullptr && line.starts_with("  server r")) ++*count;
  }
  return slots;
}

std::string ComplaintIn(std::string_view answer) {
  for (const std::string_view line : Split(answer, '\n')) {
    const bool is_good = Trim(line).empty() || line.find(" changed from ") != std::string_view::npos ||
                         line.find("no need to change") != std::string_view::npos;
    if (!is_good) return std::string(line);
  }
  return "";
}

std::string ServerCommands(const std::string& server, const ServerState& before, const ServerState& now) {
  if (before == now) return "";
  std::string text;
  const std::string set = "set server " + server + " ";
  const bool is_elsewhere = now.port != 0 && (before.address != now.address || before.port != now.port);
  if (is_elsewhere) text += set + "addr " + now.address + " port " + std::to_string(now.port) + ";";
  return text + set + "state " + now.state + ";";
}

std::vector<StatLine> ParseStat(std::string_view csv) {
  std::vector<StatLine> lines;
  std::array<std::size_t, kFields> columns{};
  bool has_head = false;
  while (!csv.empty()) {
    const std::vector<std::string_view> row = TakeRow(csv);
    if (row.size() == 1) continue;  // An empty line.
    if (row.front() == kTitles[kProxy]) {
      for (std::size_t field = 0; field < kFields; ++field)
        columns[field] = static_cast<std::size_t>(std::ranges::find(row, kTitles[field]) - row.begin());
      has_head = std::ranges::find(columns, row.size()) == columns.end();
      continue;
    }
    if (!has_head) continue;
    const auto text = [&](Field field) { return columns[field] < row.size() ? row[columns[field]] : ""; };
    const auto number = [&](Field field) { return ParseInteger(text(field)).value_or(0); };
    StatLine& stat = lines.emplace_back();
    stat.proxy = text(kProxy);
    stat.server = text(kServer);
    stat.in_flight = number(kInFlight);
    stat.queued = number(kQueued);
    stat.requests = number(kRequests);
    stat.errors = number(kErrors);
    stat.queue_ms = number(kQueueMs);
    stat.answer_ms = number(kAnswerMs);
    stat.status = text(kStatus);
    stat.failed_checks = number(kFailed);
  }
  return lines;
}

}  // namespace divvy
