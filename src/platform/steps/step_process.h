// The implementation of the step process (see step_server.h): one loop over its callers, the ends of its tasks, and the
// other nodes of its job. step_server.cc has the loop and the callers, step_life.cc the life of a step, and
// step_spread.cc everything about other nodes.
#pragma once

#include <poll.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "platform/net/tls.h"
#include "platform/records/step_list_file.h"
#include "platform/steps/gang_link.h"
#include "platform/steps/step_running.h"
#include "platform/steps/step_server_options.h"

namespace divvy {

class StepServer {
 public:
  explicit StepServer(StepServerOptions options)
      : options_(std::move(options)), resources_(options_.gpus, options_.cores), list_(options_.file) {}
  int Run();

 private:
  /// A caller. It has at most one step.
  struct Client {
    Descriptor socket;
    StepFrameReader reader;
    std::string unsent;
    std::optional<StepNumber> step;
    bool is_over = false;  // Close it when `unsent` is empty.
  };
  /// A task, identified by the step's number and the task's index among the step's tasks on this node.
  struct TaskPlace {
    StepNumber step = 0;
    std::size_t place = 0;
  };
  /// The polled descriptors of one loop iteration that belong to a step's connections to other nodes.
  struct PolledStep {
    StepNumber step = 0;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  /// A call from another node that arrived before this node was told to start (by the file STEPS.go).
  struct EarlyCall {
    std::unique_ptr<GangLink> link;
    GangFrame frame;
    Duration until{0};
  };

  // The event loop and its clients: the processes that call for steps.
  bool Listen();
  bool ListenHere();
  bool IsDone();
  /// True if nothing can reach this process any more; its tasks end with it.
  bool IsOrphaned() const { return spreads() && !list_.Exists(); }
  void Turn();
  int TimeoutOf(Duration due) const;
  void ReadSignals();
  void Accept();
  void OnClient(int fd, short events);
  void CloseFinished();
  void OnFrame(Client& client, StepFrame frame);
  void OnCall(Client& client, StepFrame frame);
  void Say(Client& client, const std::string& text);
  void Send(Client& client, StepWord word, int value, std::string_view body);
  void End(Client& client, const std::string& text, int code);
  void Flush(Client& client);
  Client* ClientOf(const RunningStep& step);

  // The life of a step, from its request to its end.
  /// Returns why a step with this plan can never start in this job, or "" if it can.
  std::string CannotEver(const StepPlan& plan) const;
  RunningStep& Enter(StepNumber number, StepCall call, StepPlan plan);
  void GrantNext();
  void OnBusy(RunningStep& step);
  void Begin(RunningStep& step, const StepGrant& grant);
  /// Starts the step's tasks on this node. Called by Begin if the step has no tasks on other nodes. If another node
  /// called the step, called when that node tells this one to start.
  void StartHere(RunningStep& step);
  void Start(RunningStep& step, Result<StepTasks> tasks);
  /// Returns true if the directory of an input or output file of these tasks does not exist yet. OnTimers continues the
  /// start when it exists.
  bool AwaitsDirectories(RunningStep& step, const std::vector<StepTask>& tasks);
  void Reap();
  void OnTaskEnded(RunningStep& step, std::size_t place, int status);
  /// Called after a task has ended with this code, here or on another node.
  void AfterEnd(RunningStep& step, int code);
  void EndTasks(RunningStep& step);
  void EndSoon(RunningStep& step);
  void OnTimers();
  void OnInterrupt(Client& client, RunningStep& step, int count);
  void OnStop(Client& client, const StepFrame& frame);
  void OnLimit(Client& client, const StepFrame& frame);
  /// Sets the step's time limit, which counts from its start. 0: no limit.
  void SetTimeLimit(RunningStep& step, Duration limit);
  void OnTimeLimit(RunningStep& step);
  void OnAbandoned(StepNumber number);
  void Abandon(RunningStep& step);
  void GiveUp(RunningStep& step, int code) { Close(step, code); }  // For a step that never ran.
  void FinishIfOver(RunningStep& step);
  void Finish(RunningStep& step);
  void Close(RunningStep& step, int code);
  void NoteOver(RunningStep& step, int code);
  void ListEnd(RunningStep& step, int code);
  void Leave(RunningStep& step);
  void Tell(const RunningStep& step, const std::string& text);

  // For other nodes of the job. spreads(): the job is on several nodes.
  bool spreads() const { return !options_.key.empty(); }
  bool ListenForMachines();
  /// Returns the TLS context `end`, which is created at the first use. Creating one takes a millisecond of CPU time,
  /// and most nodes need at most one of the two.
  Result<const TlsContext*> Secured(std::optional<TlsContext>& end) const;
  std::uint16_t machines_port() const;
  void AddMachinePolls();
  Duration MachinesDue() const;
  void OnMachinePolls();
  void AcceptMachines();
  /// Reads from a visitor: a connection of another node that has not requested a part of a step yet (GangWord::kCall).
  /// Passes the request and the connection to OnPartCall. Returns false if `visitor` must be removed: it has sent the
  /// request or something else, or the connection is lost.
  bool Hear(std::unique_ptr<GangLink>& visitor);
  void OnPartCall(EarlyCall call);
  void RetryEarlyCalls();
  void OnServed(StepNumber number);
  void OnServedFrame(RunningStep& step, const GangFrame& frame);
  void OnParts(StepNumber number, std::span<const pollfd> polls);
  // The step may be gone after each of these.
  void OnPartFrame(RunningStep& step, std::size_t part, const GangFrame& frame);
  void OnPartLost(RunningStep& step, std::size_t part, const std::set<std::size_t>& lost, const std::string& why);
  void TakeOutput(RunningStep& step, std::size_t rank, std::string_view body);
  void PassOutput(RunningStep& step, char target, std::string_view text);
  /// Requests a step's resources on its nodes in order, this one included; starts the step when all have granted.
  void BeginAsking(RunningStep& step);
  void Advance(RunningStep& step);
  void BeginSpread(RunningStep& step);
  bool HandFiles(RunningStep& step, Client& client);

  StepServerOptions options_;
  StepResources resources_;
  StepListFile list_;
  Descriptor listener_;
  Descriptor signals_;
  std::vector<pollfd> polled_;
  std::map<int, Client> clients_;  // By descriptor.
  std::vector<int> finished_;      // Clients to close; may contain duplicates.
  std::map<StepNumber, RunningStep> steps_;
  std::unordered_map<pid_t, TaskPlace> places_;
  StepNumber next_ = 0;
  Duration idle_since_{0};
  bool leaves_ = false;
  bool is_full_ = false;  // No descriptor is left for another caller.

  std::string failure_;  // Why it could not listen, if that is known.
  std::optional<TlsContext> server_end_;
  std::optional<TlsContext> dialling_end_;
  Descriptor machines_;                              // The listening socket for other nodes.
  std::vector<std::unique_ptr<GangLink>> visitors_;  // Accepted connections that have not sent a call yet.
  std::vector<EarlyCall> early_;
  std::size_t first_machine_poll_ = 0;  // Index in `polled_` of `machines_`; the visitors and the steps follow.
  std::size_t polled_visitors_ = 0;
  std::vector<PolledStep> polled_steps_;
};

}  // namespace divvy
