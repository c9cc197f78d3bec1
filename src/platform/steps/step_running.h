// One step of a job while its step process handles it: from its call to the end of its last task.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/steps/step_list.h"
#include "platform/steps/gang_parts.h"
#include "platform/steps/gang_served.h"
#include "platform/steps/step_planner.h"
#include "platform/supervisor/supervisor_watch.h"
#include "platform/users/directory_watch.h"

namespace divvy {

struct RunningStep {
  RunningStep(StepCall its_call, StepPlan its_plan) : call(std::move(its_call)), plan(std::move(its_plan)) {}

  /// Starts all tasks on this node, and sends labelled streams and the terminal to the caller's `socket`. Returns the
  /// failures as lines for the caller.
  std::string Start(const StepTasks& tasks, int socket);
  /// The indices on the server of the GPUs that it was granted here: "0,3".
  std::string GpusHere() const { return grant && plan.gpus_of ? plan.gpus_of(grant->gpus) : std::string(); }
  /// Stores in `line` what the step has on this node and on all other nodes, once they have granted their parts.
  void NoteMachines();
  /// Stores in `line` what another node has given its tasks. Returns true if this was the last node.
  bool TakeMap(std::string_view text);
  /// Signals every process of each task's process group, on all nodes.
  void SignalAll(int signal) const;
  /// Records the end of a task on this node, by index. `signal` 0: it ended by itself.
  void NoteEnd(std::size_t place, int signal, int code);
  /// Records the end of a task on any node. `signal` -1: it could not be started, which was already reported.
  void NoteEndOn(const std::string& host, std::size_t rank, int signal, int code);
  std::size_t Rank(std::size_t place) const { return ranks.empty() ? place : ranks[place]; }
  /// How many tasks run on all nodes.
  std::size_t all_alive() const { return alive + (parts != nullptr ? parts->alive() : 0); }
  bool is_waiting() const { return line.state == StepState::kWaiting; }
  /// Prepares output of a task on another node for the caller: with labels, and in whole lines, if labels are wanted.
  std::string Labelled(std::size_t rank, char target, std::string_view text);
  /// Returns the incomplete last lines of the outputs of a task on another node, by target: standard output or error.
  std::vector<std::pair<char, std::string>> TakeRests(std::size_t rank);
  /// Returns the messages about failed tasks that were not sent yet.
  std::string TakeEndings();
  int Code() const { return plan.takes_first_failure ? first_failure_ : highest_; }
  std::string Id() const { return "StepId=" + plan.name + "." + std::to_string(line.number); }
  /// Returns the ranks of the tasks that still run, to be written after the word "task": " 0", or "s 0,2-3" if there
  /// are several.
  std::string AliveText() const;

  StepCall call;
  StepPlan plan;
  StepLine line;
  int client = -1;                 // The caller's socket; -1: the caller has gone.
  std::vector<pid_t> pids;         // Pids of the tasks here, by index; -1: not running.
  std::vector<std::size_t> ranks;  // By index; empty: from 0 on.
  std::size_t alive = 0;           // Tasks running here.
  bool was_ended = false;          // We ended it: because a task failed, or because the first one ended long ago.
  Duration kill_at = kNeverDue;
  Duration wait_at = kNeverDue;
  Duration limit_at = kNeverDue;       // Its time limit.
  std::optional<StepGrant> grant;      // It has its GPUs here; it may still wait for other nodes.
  std::unique_ptr<GangParts> parts;    // The parts on other nodes, if the step was called here.
  std::unique_ptr<ServedPart> served;  // Set if this is a part of a step that was called on another node.
  bool is_asking = false;              // Its request on this node is queued.
  bool is_told_busy = false;
  /// It has all its resources, and waits for directories of its tasks' files.
  struct Awaited {
    DirectoryWatch watch;
    Duration until{0};
  };
  std::optional<Awaited> awaited;

 private:
  void NoteCode(int code);
  std::string Place(const std::string& host, const std::vector<std::size_t>& ranks) const;
  struct Pipes {
    std::vector<Descriptor> reading;
    std::vector<Descriptor> writing;  // Closed once the task has them.
    std::string labels;
  };
  std::array<int, 3> MakePipes(const StepTask& task, std::size_t rank, Pipes& pipes);
  std::string Label(std::size_t rank) const;

  std::size_t count_ = 1;  // Number of tasks on all nodes.
  std::size_t maps_ = 0;   // How many maps of other nodes have arrived.
  int first_failure_ = 0;
  int highest_ = 0;
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> endings_;  // By host and reason.
  std::map<std::pair<std::size_t, char>, std::string> rests_;  // Incomplete lines, by rank and target.
};

/// Returns ranks as text: "0", "0-2,5".
std::string RankList(const std::vector<std::size_t>& ranks);

}  // namespace divvy
