// The daemon's API as the commands see it: one method per route, messages in, messages out. All commands reach the
// daemon through this class. Calls block; each Api has one connection.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/os/runtime_paths.h"
#include "platform/os/unique_fd.h"
#include "platform/users/read_log.h"
#include "wire/http/token_line.h"
#include "wire/messages/messages.h"
#include "wire/messages/messages_remote.h"

namespace divvy {
struct HttpResponse;
}

namespace divvy::cli {

class Api {
 public:
  /// Connects to this machine's daemon. If none runs, connects to the controller that divvy login chose
  /// (cli/client/login.h). Fails with kUnreachable, naming the socket that was tried and the command that starts a
  /// daemon.
  static Result<Api> Connect();
  static Result<Api> Connect(const std::string& socket);
  static Result<Api> Connect(const TokenLine& login);
  static Result<Api> ConnectThroughAgent(const std::string& socket);
  Api(Api&&) noexcept;
  Api& operator=(Api&&) noexcept;
  ~Api();

  /// True if the daemon runs on another machine.
  bool is_remote() const;
  /// True if the connection goes through an agent's local socket (HttpClient::is_through_agent).
  bool is_through_agent() const;

  Result<wire::StatusView> Status();
  Result<std::vector<wire::GpuView>> Gpus();
  Result<wire::RestrictAnswer> Restrict(const wire::RestrictRequest& request);
  Result<wire::IgnoreAnswer> Ignore(const wire::IgnoreRequest& request);
  Result<wire::IgnoreAnswer> IgnoreRules();

  /// Pass `streams` (stdin, stdout, stderr) for a foreground job only. `key`: see wire::SubmitRequest. With several
  /// controllers, an empty one is replaced, and the request is repeated until one of them has answered.
  Result<wire::SubmitAnswer> Submit(const JobSpec& spec, std::span<const int> streams = {}, std::string key = "");
  Result<std::vector<wire::JobView>> Jobs(const wire::JobSelector& selector);
  /// `id`: "17", "17_3", "@", "@~1" or a name.
  Result<wire::JobDetail> Job(const std::string& id);
  /// Returns a piece of the job's output, or of its error file, as ReadLog returns it on the node that has the file.
  Result<LogPiece> Log(const std::string& id, bool is_error, std::int64_t at, std::int64_t last, std::int64_t run = 0);
  Result<wire::WhyView> Why(const std::string& id);
  /// Returns the steps of a job. Works for jobs on other nodes too: the daemon queries the node.
  Result<std::vector<wire::StepView>> Steps(const std::string& id);
  /// Opens a connection to the process inside a running job that starts a step for an outside caller, or signals one
  /// (`stops_only`). It carries step frames (platform/records/step_wire.h). Works for jobs on any node. Consumes `api`.
  static Result<Descriptor> ReachSteps(Api api, const std::string& id, bool stops_only);
  /// Returns when the job is final, and keeps waiting across a restart of the daemon. Calls `on_lost` when the
  /// connection to the daemon is lost for the first time; with `streams`, each time it is lost. `streams` (of a
  /// foreground job's caller) are sent to each new daemon, because the old daemon's copies were closed with it. `had`
  /// is called before each of these requests and returns how many bytes have arrived through the streams.
  Result<wire::WaitAnswer> Wait(const std::string& id, std::span<const int> streams = {},
                                const std::function<void()>& on_lost = {},
                                const std::function<wire::RejoinRequest()>& had = {});
  Result<wire::ActionAnswer> Cancel(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Hold(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Release(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Requeue(const wire::ActionRequest& request);
  /// Changes the GPU fraction of running jobs, or where it is. `action`: "resize", "park", "wake" or "move".
  Result<wire::ActionAnswer> Portion(std::string_view action, const wire::PortionRequest& request);
  Result<wire::ActionAnswer> Pause(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Resume(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Signal(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Update(const wire::JobUpdate& update);
  Result<wire::ActionAnswer> SetGroupLimit(const wire::GroupLimitRequest& request);
  /// Tells the daemon that the caller left the terminal of its foreground job. For use while the node's agent is
  /// disconnected and cannot report it.
  Result<wire::WaitAnswer> Leave(const std::string& id);
  /// Connects the caller's terminal to a job that has a pty. Returns when the job ends or the viewer detaches.
  Result<wire::WaitAnswer> Attach(const std::string& id, std::span<const int> streams);
  Result<wire::CheckpointAnswer> Checkpoint(const std::string& id, const wire::CheckpointRequest& request);
  Result<wire::ProgressAnswer> ReportProgress(const std::string& id, const wire::ProgressRequest& request);
  Result<void> Resize(const std::string& id, const wire::WinsizeRequest& size);
  /// Calls `on_event` for each change until it returns false or the daemon goes away.
  Result<void> Events(const std::function<bool(const wire::ChangeEvent&)>& on_event);
  Result<void> Shutdown();
  Result<std::string> Raw(const std::string& method, const std::string& target, const std::string& body);
  /// Like Raw, but also returns the headers of the answer. `has_key`: the body has a submission key, so with several
  /// controllers the request is repeated until one of them has answered.
  Result<HttpResponse> Whole(const std::string& method, const std::string& target, const std::string& body,
                             bool has_key = false);

 private:
  struct Connection;
  explicit Api(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace divvy::cli
