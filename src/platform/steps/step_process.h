// The step process from inside (step_server.h says what it is): one loop over its callers, its tasks' ends, and the
// other machines of its job. step_server.cc has the loop and the callers, step_life.cc what a step goes through,
// step_spread.cc all that has to do with other machines.
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
#include "platform/steps/step_server.h"

namespace divvy {

class StepServer {
 public:
  explicit StepServer(StepServerOptions options)
      : options_(std::move(options)), book_(options_.gpus, options_.cores), list_(options_.file) {}
  int Run();

 private:
  /// One caller. It has one step at most.
  struct Client {
    Descriptor socket;
    StepFrameReader reader;
    std::string unsent;
    std::optional<StepNumber> step;
    bool is_over = false;  // To be closed when `unsent` is empty.
  };
  /// A task, by the step's number here and its place among the step's tasks here.
  struct TaskPlace {
    StepNumber step = 0;
    std::size_t place = 0;
  };
  /// Which of a turn's descriptors are a step's, for other machines.
  struct PolledStep {
    StepNumber step = 0;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  /// Another machine's call that came before the word to go has reached this one.
  struct EarlyCall {
    std::unique_ptr<GangLink> link;
    GangFrame frame;
    Duration until{0};
  };

  // The loop and the callers.
  bool Listen();
  bool ListenHere();
  bool IsDone();
  /// Nothing can reach this process any more; its tasks end with it.
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

  // A step's life.
  std::string CannotEver(const StepPlan& plan) const;
  RunningStep& Enter(StepNumber number, StepCall call, StepPlan plan);
  void GrantNext();
  void OnBusy(RunningStep& step);
  void Begin(RunningStep& step, const StepGrant& grant);
  /// Begin and the word to go lead here, if the step has tasks on this machine alone or is a part.
  void StartHere(RunningStep& step);
  void Start(RunningStep& step, Result<StepTasks> tasks);
  /// True: a directory of one of these files does not exist yet, and OnTimers goes on when it does.
  bool AwaitsDirectories(RunningStep& step, const std::vector<StepTask>& tasks);
  void Reap();
  void OnTaskEnded(RunningStep& step, std::size_t place, int status);
  /// After a task has ended, here or elsewhere, with this code.
  void AfterEnd(RunningStep& step, int code);
  void EndTasks(RunningStep& step);
  void EndSoon(RunningStep& step);
  void OnTimers();
  void OnInterrupt(Client& client, RunningStep& step, int count);
  void OnStop(Client& client, const StepFrame& frame);
  void OnAbandoned(StepNumber number);
  void Abandon(RunningStep& step);
  void GiveUp(RunningStep& step, int code) { Close(step, code); }  // A step that never ran.
  void FinishIfOver(RunningStep& step);
  void Finish(RunningStep& step);
  void Close(RunningStep& step, int code);
  void NoteOver(RunningStep& step, int code);
  void ListEnd(RunningStep& step, int code);
  void Leave(RunningStep& step);
  void Tell(const RunningStep& step, const std::string& text);

  // Other machines of the job. `spreads` holds where the job is on several.
  bool spreads() const { return !options_.key.empty(); }
  bool ListenForMachines();
  /// `end`, set up when it is first needed: that takes a millisecond of CPU time, and most machines need one at most.
  Result<const TlsContext*> Secured(std::optional<TlsContext>& end) const;
  std::uint16_t machines_port() const;
  void AddMachinePolls();
  Duration MachinesDue() const;
  void OnMachinePolls();
  void AcceptMachines();
  /// False when it is not a visitor any more.
  bool Hear(std::unique_ptr<GangLink>& visitor);
  void OnPartCall(EarlyCall call);
  void RetryEarlyCalls();
  void OnServed(StepNumber number);
  void OnServedFrame(RunningStep& step, const GangFrame& frame);
  void OnParts(StepNumber number, std::span<const pollfd> polls);
  // After each of these the step may be gone.
  void OnPartFrame(RunningStep& step, std::size_t part, const GangFrame& frame);
  void OnPartLost(RunningStep& step, std::size_t part, const std::set<std::size_t>& lost, const std::string& why);
  void TakeOutput(RunningStep& step, std::size_t rank, std::string_view body);
  void PassOutput(RunningStep& step, char target, std::string_view text);
  /// Asks the machines of a step in their turn, this one among them; starts it when all have granted.
  void BeginAsking(RunningStep& step);
  void Advance(RunningStep& step);
  void BeginSpread(RunningStep& step);
  bool HandFiles(RunningStep& step, Client& client);

  StepServerOptions options_;
  StepBook book_;
  StepListFile list_;
  Descriptor listener_;
  Descriptor signals_;
  std::vector<pollfd> polled_;
  std::map<int, Client> clients_;  // By descriptor.
  std::vector<int> finished_;      // Clients to be closed; one may be named twice.
  std::map<StepNumber, RunningStep> steps_;
  std::unordered_map<pid_t, TaskPlace> places_;
  StepNumber next_ = 0;
  Duration idle_since_{0};
  bool leaves_ = false;
  bool is_full_ = false;  // No descriptor is left for another caller.

  std::string failure_;  // Why it could not listen, where that is known.
  std::optional<TlsContext> server_end_;
  std::optional<TlsContext> dialling_end_;
  Descriptor machines_;                              // Where other machines connect.
  std::vector<std::unique_ptr<GangLink>> visitors_;  // That have not said yet what they want.
  std::vector<EarlyCall> early_;
  std::size_t first_machine_poll_ = 0;  // In `polled_`: `machines_`, the visitors, the steps.
  std::size_t polled_visitors_ = 0;
  std::vector<PolledStep> polled_steps_;
};

}  // namespace divvy
