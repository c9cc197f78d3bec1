#include "cli/client/api.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "cli/client/http_client.h"
#include "cli/client/login.h"
#include "cli/client/shown_answer.h"
#include "platform/net/tls.h"
#include "wire/http/http.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_remote.h"

namespace divvy::cli {
namespace {

/// Returns the controller that this machine's agent has joined. Returns "" if there is none, or if the caller may not
/// read the agent's state file.
std::string ControllerOfAgentHere(const RuntimePaths& places) {
  std::ifstream file(places.state + "/agent/agent.state");
  for (std::string key, value; file >> key && std::getline(file >> std::ws, value);) {
    if (key == "controller") return value;
  }
  return "";
}

Error NoDaemon(const RuntimePaths& places, const Error& error) {
  // Never suggest a second scheduler for a node's GPUs.
  if (const std::string controller = ControllerOfAgentHere(places); !controller.empty()) {
    return Unreachable("no daemon answers at " + places.socket + ": this machine is a node of the controller at " +
                       controller +
                       "; run divvy there, or log in from here (divvy token create there, divvy login here)");
  }
  if (error.code == ErrorCode::kPermissionDenied)
    return PermissionDenied(error.message + ": that daemon serves only its own user");
  std::string command = "divvy up";
  // Only root can see whether this machine is a node of a controller.
  if (places.is_machine_wide && ::geteuid() != 0)
    command = "sudo divvy up; on a node of a cluster, use divvy on the controller's node, or divvy login";
  if (!places.home.empty()) command = "DIVVY_HOME=" + places.home + " divvy up";
  return Unreachable("no daemon answers at " + places.socket + " (" + error.message + "); start one with: " + command);
}

// Retry soon at first, for a daemon that restarts at once; then once a second, for one that stays down.
constexpr long kFirstPauseMs = 20;
constexpr long kLongestPauseMs = 1000;
/// With several controllers: how long a request is repeated that the leader did not answer.
constexpr auto kRepeatAtMost = std::chrono::seconds(30);
constexpr auto kRepeatPause = std::chrono::milliseconds(100);
constexpr std::size_t kKeyBytes = 16;
/// From this age in seconds on, an answer gets a note.
constexpr double kOldAnswerS = 3;
/// How long a submission may take before it is repeated: the leader may hang.
constexpr Duration kSubmissionTakes = std::chrono::seconds(8);

ErrorCode CodeOfStatus(int status) {
  switch (status) {
    case 400:
      return ErrorCode::kInvalidArgument;
    case 401:
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kFailedPrecondition;
    case 429:
    case 507:
      return ErrorCode::kLimitExceeded;
    case 503:
      return ErrorCode::kUnreachable;
    case 504:
      return ErrorCode::kTimedOut;
    default:
      return ErrorCode::kInternal;
  }
}

/// A command that requeues its own job is stopped with that job, before or after it receives the answer. The program
/// that called it needs its exit code to write its last state. So inside a job this process ignores SIGTERM from now
/// on; it ends soon in any case.
void IgnoreTermInJob() {
  if (std::getenv("DIVVY_JOB_ID") != nullptr) static_cast<void>(std::signal(SIGTERM, SIG_IGN));
}

}  // namespace

struct Api::Connection {
  std::string socket;
  HttpClient http;
  std::optional<TokenLine> login;  // Used instead of the socket if set.

  /// Returns when a daemon answers again. This never starts one.
  void Reconnect();
  long pause_ms = kFirstPauseMs;  // Before the next attempt of Reconnect.
  bool has_noted_age = false;

  Result<std::string> Call(std::string_view method, const std::string& target, const std::string& body = "",
                           std::span<const int> fds = {}) {
    DIVVY_TRY(HttpResponse response, CallWhole(method, target, body, fds));
    return std::move(response.body);
  }

  /// With several controllers, repeats the request at the next leader, if that can do no harm: a controller that does
  /// not lead has refused it, or it changes nothing, or it has a key.
  Result<HttpResponse> CallWhole(std::string_view method, const std::string& target, const std::string& body,
                                 std::span<const int> fds, bool has_key = false) {
    constexpr int kRedirected = 307, kUnavailable = 503;
    const bool is_repeatable = has_key || method == "GET" || target == "/v1/jobs/select";
    const auto end = std::chrono::steady_clock::now() + kRepeatAtMost;
    while (true) {
      if (has_key && login && !login->others.empty()) http.SetPatience(kSubmissionTakes);
      auto response = http.Call(method, target, body, fds);
      if (has_key) http.SetPatience(Duration(0));
      const bool was_refused = response && (response->status == kRedirected || response->status == kUnavailable);
      const bool was_lost = !response && response.error().code == ErrorCode::kUnreachable && is_repeatable;
      const bool may_repeat = login && !login->others.empty() && std::chrono::steady_clock::now() < end;
      if (response) NoteAge(response->header("divvy-age"));
      if (!may_repeat || (!was_refused && !was_lost)) return Checked(std::move(response));
      if (was_refused && response->status == kUnavailable && Leads(http)) return Checked(std::move(response));
      std::this_thread::sleep_for(kRepeatPause);
      auto again = HttpClient::Connect(*login);
      if (!again) return again.error();
      http = *std::move(again);
    }
  }

  void NoteAge(std::string_view seconds) {
    const auto age = ParseNumber(seconds);
    if (!age || *age < kOldAnswerS || std::exchange(has_noted_age, true)) return;
    std::fprintf(stderr, "divvy: note: this answer is %.0f s old: its controller does not lead at the moment\n", *age);
  }

  /// Returns true if the controller at the other end leads. Then it has refused the request for another reason than
  /// being a standby.
  static bool Leads(HttpClient& http) {
    const auto answer = http.Call("GET", "/leader");
    const auto view = answer ? wire::Decode<wire::LeaderView>(answer->body) : Result<wire::LeaderView>(answer.error());
    return view && view->leads;
  }

  static Result<HttpResponse> Checked(Result<HttpResponse> called) {
    DIVVY_TRY(HttpResponse response, std::move(called));
    if (response.status < 300) return response;
    if (auto error = DecodeShown<wire::ErrorView>(response.body); error && !error->message.empty()) {
      return Error{CodeOfStatus(response.status), error->message};
    }
    return Error{CodeOfStatus(response.status), "the daemon answered with status " + std::to_string(response.status)};
  }

  template <typename Answer>
  Result<Answer> Ask(std::string_view method, const std::string& target, const std::string& body = "",
                     std::span<const int> fds = {}) {
    DIVVY_TRY(const std::string text, Call(method, target, body, fds));
    return DecodeShown<Answer>(text);
  }
};

Api::Api(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Api::Api(Api&&) noexcept = default;
Api& Api::operator=(Api&&) noexcept = default;
Api::~Api() = default;

Result<Api> Api::Connect() {
  if (const std::string socket_path = ChosenAgentSocket(); !socket_path.empty())
    return ConnectThroughAgent(socket_path);
  DIVVY_TRY(const std::optional<TokenLine> chosen, ChosenLogin());
  if (chosen) return Connect(*chosen);
  const RuntimePaths places = FindPlaces();
  auto api = Connect(places.socket);
  if (api) return api;
  // Use the login of divvy login only on a machine without a daemon, such as a workstation. Do not use it if this
  // machine has a daemon that is down, or inside a job.
  const bool has_daemon = !places.home.empty() || ::access(places.state.c_str(), F_OK) == 0;
  if (!has_daemon && std::getenv("DIVVY_JOB_ID") == nullptr) {
    DIVVY_TRY(const std::optional<TokenLine> kept, KeptLogin());
    if (kept) return Connect(*kept);
  }
  return NoDaemon(places, api.error());
}

Result<Api> Api::Connect(const TokenLine& login) {
  DIVVY_TRY(HttpClient http, HttpClient::Connect(login));
  return Api(std::make_unique<Connection>(Connection{"", std::move(http), login}));
}

bool Api::is_remote() const { return connection_->http.is_remote(); }

bool Api::is_through_agent() const { return connection_->http.is_through_agent(); }

Result<Api> Api::ConnectThroughAgent(const std::string& socket) {
  auto http = HttpClient::ConnectThroughAgent(socket);
  if (!http)
    return Unreachable("the agent on this machine does not answer (" + http.error().message + "); jobs keep running");
  return Api(std::make_unique<Connection>(Connection{socket, *std::move(http), {}}));
}

Result<Api> Api::Connect(const std::string& socket) {
  DIVVY_TRY(HttpClient http, HttpClient::Connect(socket));
  return Api(std::make_unique<Connection>(Connection{socket, std::move(http), {}}));
}

Result<wire::StatusView> Api::Status() { return connection_->Ask<wire::StatusView>("GET", "/v1/status"); }
Result<std::vector<wire::GpuView>> Api::Gpus() {
  return connection_->Ask<std::vector<wire::GpuView>>("GET", "/v1/gpus");
}

Result<wire::RestrictAnswer> Api::Restrict(const wire::RestrictRequest& request) {
  return connection_->Ask<wire::RestrictAnswer>("POST", "/v1/gpus/restrict", wire::EncodeChanged(request));
}
Result<wire::IgnoreAnswer> Api::Ignore(const wire::IgnoreRequest& request) {
  return connection_->Ask<wire::IgnoreAnswer>("POST", "/v1/gpus/ignore", wire::EncodeChanged(request));
}
Result<wire::IgnoreAnswer> Api::IgnoreRules() { return connection_->Ask<wire::IgnoreAnswer>("GET", "/v1/gpus/ignore"); }

Result<wire::SubmitAnswer> Api::Submit(const JobSpec& spec, std::span<const int> streams, std::string key) {
  if (key.empty() && connection_->login && !connection_->login->others.empty()) {
    DIVVY_TRY(key, RandomHex(kKeyBytes));
  }
  const bool is_repeated = !key.empty() && connection_->login;
  const std::string body =
      "{\"spec\":" + wire::EncodeChanged(spec) + (key.empty() ? "" : ",\"key\":\"" + key + "\"") + "}";
  DIVVY_TRY(const HttpResponse response, connection_->CallWhole("POST", "/v1/jobs", body, streams, is_repeated));
  return DecodeShown<wire::SubmitAnswer>(response.body);
}

Result<std::vector<wire::JobView>> Api::Jobs(const wire::JobSelector& selector) {
  return connection_->Ask<std::vector<wire::JobView>>("POST", "/v1/jobs/select", wire::EncodeChanged(selector));
}
Result<wire::JobDetail> Api::Job(const std::string& id) {
  return connection_->Ask<wire::JobDetail>("GET", "/v1/jobs/" + PercentEncode(id));
}
Result<Descriptor> Api::ReachSteps(Api api, const std::string& id, bool stops_only) {
  const std::string target = "/v1/jobs/" + PercentEncode(id) + "/steps" + (stops_only ? "?stop=1" : "");
  return HttpClient::Upgrade(std::move(api.connection_->http), "POST", target, "divvy-step/1");
}

Result<std::vector<wire::StepView>> Api::Steps(const std::string& id) {
  return connection_->Ask<std::vector<wire::StepView>>("GET", "/v1/jobs/" + PercentEncode(id) + "/steps");
}
Result<LogPiece> Api::Log(const std::string& id, bool is_error, std::int64_t at, std::int64_t last, std::int64_t run) {
  const std::string target = "/v1/jobs/" + PercentEncode(id) + "/log?at=" + std::to_string(at) +
                             "&last=" + std::to_string(last) + (is_error ? "&error=1" : "") +
                             (run > 0 ? "&run=" + std::to_string(run) : "");
  DIVVY_TRY(HttpResponse response, connection_->CallWhole("GET", target, "", {}));
  const auto next = ParseInteger(response.header("divvy-next"));
  if (!next) return CorruptData("the daemon did not report where the log continues");
  return LogPiece{std::move(response.body), *next, 0};
}
Result<wire::WhyView> Api::Why(const std::string& id) {
  return connection_->Ask<wire::WhyView>("GET", "/v1/jobs/" + PercentEncode(id) + "/why");
}

void Api::Connection::Reconnect() {
  for (;; pause_ms = std::min(2 * pause_ms, kLongestPauseMs)) {
    const timespec pause{pause_ms / 1000, pause_ms % 1000 * 1'000'000};
    ::nanosleep(&pause, nullptr);
    auto again = login                     ? HttpClient::Connect(*login)
                 : http.is_through_agent() ? HttpClient::ConnectThroughAgent(socket)
                                           : HttpClient::Connect(socket);
    // Another daemon has taken its place. Waiting does not help; the next request reports the error.
    if (!again && again.error().code == ErrorCode::kPermissionDenied) return;
    if (!again) continue;
    http = *std::move(again);
    pause_ms = std::min(2 * pause_ms, kLongestPauseMs);  // It may be a standby, which can only refuse.
    return;
  }
}

Result<wire::WaitAnswer> Api::Wait(const std::string& id, std::span<const int> streams,
                                   const std::function<void()>& on_lost,
                                   const std::function<wire::RejoinRequest()>& had) {
  const std::string job = "/v1/jobs/" + PercentEncode(id);
  bool was_lost = false;
  while (true) {
    auto answer = was_lost && !streams.empty()
                      ? connection_->Ask<wire::WaitAnswer>("POST", job + "/rejoin",
                                                           had ? wire::EncodeChanged(had()) : "{}", streams)
                      : connection_->Ask<wire::WaitAnswer>("GET", job + "/wait");
    if (answer || answer.error().code != ErrorCode::kUnreachable) return answer;
    // The daemon went away, which never ends a job: wait for the next one.
    if (on_lost && (!was_lost || !streams.empty())) on_lost();
    was_lost = true;
    connection_->Reconnect();
  }
}

Result<wire::ActionAnswer> Api::Cancel(const wire::ActionRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/cancel", wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Hold(const wire::ActionRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/hold", wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Release(const wire::ActionRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/release", wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Requeue(const wire::ActionRequest& request) {
  IgnoreTermInJob();
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/requeue", wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Portion(std::string_view action, const wire::PortionRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/" + std::string(action), wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Pause(const wire::ActionRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/pause", wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Resume(const wire::ActionRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/resume", wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Signal(const wire::ActionRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/signal", wire::EncodeChanged(request));
}
Result<wire::ActionAnswer> Api::Update(const wire::JobUpdate& update) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/jobs/update", wire::EncodeChanged(update));
}
Result<wire::ActionAnswer> Api::SetGroupLimit(const wire::GroupLimitRequest& request) {
  return connection_->Ask<wire::ActionAnswer>("POST", "/v1/groups/limit", wire::EncodeChanged(request));
}

Result<wire::WaitAnswer> Api::Leave(const std::string& id) {
  wire::RejoinRequest request;
  request.has_left = true;
  return connection_->Ask<wire::WaitAnswer>("POST", "/v1/jobs/" + PercentEncode(id) + "/rejoin",
                                            wire::EncodeChanged(request));
}

Result<wire::WaitAnswer> Api::Attach(const std::string& id, std::span<const int> streams) {
  return connection_->Ask<wire::WaitAnswer>("POST", "/v1/jobs/" + PercentEncode(id) + "/attach", "{}", streams);
}

Result<wire::CheckpointAnswer> Api::Checkpoint(const std::string& id, const wire::CheckpointRequest& request) {
  return connection_->Ask<wire::CheckpointAnswer>("POST", "/v1/jobs/" + PercentEncode(id) + "/checkpoint",
                                                  wire::EncodeChanged(request));
}

Result<wire::ProgressAnswer> Api::ReportProgress(const std::string& id, const wire::ProgressRequest& request) {
  return connection_->Ask<wire::ProgressAnswer>("POST", "/v1/jobs/" + PercentEncode(id) + "/progress",
                                                wire::EncodeChanged(request));
}

Result<void> Api::Resize(const std::string& id, const wire::WinsizeRequest& size) {
  DIVVY_TRY(const std::string text,
            connection_->Call("POST", "/v1/jobs/" + PercentEncode(id) + "/resize", wire::EncodeChanged(size)));
  return {};
}

Result<void> Api::Events(const std::function<bool(const wire::ChangeEvent&)>& on_event) {
  return connection_->http.Stream("/v1/events", [&](std::string_view text) {
    const auto event = DecodeShown<wire::ChangeEvent>(text);
    return !event || on_event(*event);
  });
}

Result<void> Api::Shutdown() {
  DIVVY_TRY(const std::string text, connection_->Call("POST", "/v1/shutdown", "{}"));
  return {};
}

Result<std::string> Api::Raw(const std::string& method, const std::string& target, const std::string& body) {
  return connection_->Call(method, target, body);
}
Result<HttpResponse> Api::Whole(const std::string& method, const std::string& target, const std::string& body,
                                bool has_key) {
  return connection_->CallWhole(method, target, body, {}, has_key);
}

}  // namespace divvy::cli
