// What the commands may ask of the daemon: one method per route, messages in, messages out. The only way from the
// command line to anything. Blocking; one connection.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/os/launch_descriptor.h"
#include "platform/os/places.h"
#include "platform/users/read_log.h"
#include "wire/http/token_line.h"
#include "wire/messages/messages.h"
#include "wire/messages/messages_remote.h"

namespace divvy::cli {

class Api {
 public:
  /// To this machine's daemon; else, where there is none, to the one that divvy login chose (cli/client/login.h). Fails
  /// with kUnreachable, naming the socket that was tried and the command that starts a daemon.
  static Result<Api> Connect();
  static Result<Api> Connect(const std::string& socket);
  static Result<Api> Connect(const TokenLine& login);
  static Result<Api> ConnectDoor(const std::string& socket);
  Api(Api&&) noexcept;
  Api& operator=(Api&&) noexcept;
  ~Api();

  /// The daemon is on another machine.
  bool is_remote() const;
  /// Behind a door of an agent (HttpClient::is_door).
  bool is_door() const;

  Result<wire::StatusView> Status();
  Result<std::vector<wire::GpuView>> Gpus();
  Result<wire::RestrictAnswer> Restrict(const wire::RestrictRequest& request);
  Result<wire::IgnoreAnswer> Ignore(const wire::IgnoreRequest& request);
  Result<wire::IgnoreAnswer> IgnoreRules();

  /// `streams` (stdin, stdout, stderr) only for a foreground job.
  Result<wire::SubmitAnswer> Submit(const JobSpec& spec, std::span<const int> streams = {});
  Result<std::vector<wire::JobView>> Jobs(const wire::JobSelector& selector);
  /// `id`: "17", "17_3", "@", "@~1" or a name.
  Result<wire::JobDetail> Job(const std::string& id);
  /// A piece of its output, or of its errors, as ReadLog gives it on the machine where it is.
  Result<LogPiece> Log(const std::string& id, bool is_error, std::int64_t at, std::int64_t last, std::int64_t run = 0);
  Result<wire::WhyView> Why(const std::string& id);
  /// Also of a job that runs on another machine, which is asked for them.
  Result<std::vector<wire::StepView>> Steps(const std::string& id);
  /// To what stands in a running job for somebody outside who starts a step in it, wherever it runs, or signals one
  /// (`stops_only`): step frames (platform/records/step_wire.h). The connection is used up.
  static Result<Descriptor> ReachSteps(Api api, const std::string& id, bool stops_only);
  /// Answers when the job is final; goes on waiting over a restart of the daemon. `on_lost` is called when the
  /// daemon goes first. `streams` (of a foreground job's caller) are given to each new daemon again: those that the one
  /// before held died with it. `had`: what has come by them, asked for each time.
  Result<wire::WaitAnswer> Wait(const std::string& id, std::span<const int> streams = {},
                                const std::function<void()>& on_lost = {},
                                const std::function<wire::RejoinRequest()>& had = {});
  Result<wire::ActionAnswer> Cancel(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Hold(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Release(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Requeue(const wire::ActionRequest& request);
  /// `action`: "resize", "park", "wake", "move".
  Result<wire::ActionAnswer> Portion(std::string_view action, const wire::PortionRequest& request);
  Result<wire::ActionAnswer> Pause(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Resume(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Signal(const wire::ActionRequest& request);
  Result<wire::ActionAnswer> Update(const wire::JobUpdate& update);
  Result<wire::ActionAnswer> SetGroupLimit(const wire::GroupLimitRequest& request);
  /// Puts the terminal on a job that has a pty; answers when the job ends or the viewer detaches.
  /// The terminal of a foreground job of ours was left, and its machine is away and cannot say so.
  Result<wire::WaitAnswer> Leave(const std::string& id);
  Result<wire::WaitAnswer> Attach(const std::string& id, std::span<const int> streams);
  Result<wire::CheckpointAnswer> Checkpoint(const std::string& id, const wire::CheckpointRequest& request);
  Result<wire::ProgressAnswer> ReportProgress(const std::string& id, const wire::ProgressRequest& request);
  Result<void> Resize(const std::string& id, const wire::WinsizeRequest& size);
  /// Calls `on_event` for each change until it returns false or the daemon goes.
  Result<void> Events(const std::function<bool(const wire::ChangeEvent&)>& on_event);
  Result<void> Shutdown();
  Result<std::string> Raw(const std::string& method, const std::string& target, const std::string& body);

 private:
  struct Connection;
  explicit Api(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace divvy::cli
