// One step of a job while its step process has it: from its call to the end of its last task.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/steps/step_list.h"
#include "platform/steps/gang_parts.h"
#include "platform/steps/gang_served.h"
#include "platform/steps/step_server.h"
#include "platform/supervisor/supervisor_watch.h"
#include "platform/users/directory_watch.h"

namespace divvy {

struct RunningStep {
  RunningStep(StepCall its_call, StepPlan its_plan) : call(std::move(its_call)), plan(std::move(its_plan)) {}

  /// Starts all tasks here, and hands labelled streams and the terminal to the caller's `socket`. What failed, in lines
  /// for the caller.
  std::string Start(const StepTasks& tasks, int socket);
  /// "0,3" on the server: of those that it was granted here.
  std::string GpusHere() const { return grant && plan.gpus_of ? plan.gpus_of(grant->gpus) : std::string(); }
  /// What it has, here and on the others that have all granted it their part, into `line`.
  void NoteMachines();
  /// What another machine has given its tasks, into `line`. Whether that of the last one is there now.
  bool TakeMap(std::string_view text);
  /// To every process of each task's group, on all machines.
  void SignalAll(int signal) const;
  /// Of a task here, by its place among them. `signal` 0: it ended by itself.
  void NoteEnd(std::size_t place, int signal, int code);
  /// Of a task anywhere. `signal` -1: it could not be started, which has been told.
  void NoteEndOn(const std::string& host, std::size_t rank, int signal, int code);
  std::size_t Rank(std::size_t place) const { return ranks.empty() ? place : ranks[place]; }
  /// Tasks that run, on all machines.
  std::size_t all_alive() const { return alive + (parts != nullptr ? parts->alive() : 0); }
  bool is_waiting() const { return line.state == StepState::kWaiting; }
  /// What a task elsewhere wrote, as the caller is to write it: with labels where they are wanted, lines whole then.
  std::string Labelled(std::size_t rank, char target, std::string_view text);
  /// What is left of lines that have no end, by target.
  std::vector<std::pair<char, std::string>> TakeRests(std::size_t rank);
  /// What has not been said yet about tasks that failed.
  std::string TakeEndings();
  int Code() const { return plan.takes_first_failure ? first_failure_ : highest_; }
  std::string Id() const { return "StepId=" + plan.name + "." + std::to_string(line.number); }
  /// " 0,2-3", with an s where there are several: "s 0,2-3".
  std::string AliveText() const;

  StepCall call;
  StepPlan plan;
  StepLine line;
  int client = -1;                 // The caller's socket; -1: it has gone.
  std::vector<pid_t> pids;         // Of tasks here, by place; -1: does not run.
  std::vector<std::size_t> ranks;  // By place; empty: from 0 on.
  std::size_t alive = 0;           // Tasks here.
  bool was_ended = false;          // By us: because a task failed, or the first one ended long ago.
  Duration kill_at = kNeverDue;
  Duration wait_at = kNeverDue;
  std::optional<StepGrant> grant;      // It has its GPUs here; it may still wait for other machines.
  std::unique_ptr<GangParts> parts;    // The other machines', where it was called here.
  std::unique_ptr<ServedPart> served;  // It is a part of a step that was called elsewhere.
  bool is_asking = false;              // Here as well: its place in this machine's line is taken.
  bool is_told_busy = false;
  /// It has all that it asked for, and waits for directories of its tasks' files.
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

  std::size_t count_ = 1;  // Of tasks on all machines.
  std::size_t maps_ = 0;   // Other machines' that have come.
  int first_failure_ = 0;
  int highest_ = 0;
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> endings_;  // By host and how.
  std::map<std::pair<std::size_t, char>, std::string> rests_;  // Lines without an end, by rank and target.
};

/// "0", "0-2,5".
std::string RankList(const std::vector<std::size_t>& ranks);

}  // namespace divvy
