// One step of a job while its step process has it: from its call to the end of its last task.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "model/step_list.h"
#include "platform/step_server.h"
#include "platform/supervisor_watch.h"

namespace divvy {

struct RunningStep {
  RunningStep(StepCall its_call, StepPlan its_plan) : call(std::move(its_call)), plan(std::move(its_plan)) {}

  /// Starts all tasks, and hands labelled streams and the terminal to the caller's `socket`. What failed, in lines for
  /// the caller.
  std::string Start(const std::vector<StepTask>& tasks, int socket);
  /// To every process of each task's group.
  void SignalAll(int signal) const;
  /// `signal` 0: it ended by itself.
  void NoteEnd(std::size_t rank, int signal, int code);
  /// What has not been said yet about tasks that failed.
  std::string TakeEndings();
  int Code() const;
  std::string Id() const { return "StepId=" + plan.name + "." + std::to_string(line.number); }
  /// " 0,2-3", with an s where there are several: "s 0,2-3".
  std::string AliveText() const;

  StepCall call;
  StepPlan plan;
  StepLine line;
  int client = -1;          // The caller's socket; -1: it has gone.
  std::vector<pid_t> pids;  // By rank; -1: does not run.
  std::vector<int> codes;   // By rank; -1: has not ended.
  std::size_t alive = 0;
  bool was_ended = false;  // By us: because a task failed, or the first one ended long ago.
  Duration kill_at = kNeverDue;
  Duration wait_at = kNeverDue;

 private:
  std::string Place(const std::vector<std::size_t>& ranks) const;
  struct Pipes {
    std::vector<Descriptor> reading;
    std::vector<Descriptor> writing;  // Closed once the task has them.
    std::string labels;
  };
  std::array<int, 3> MakePipes(const StepTask& task, std::size_t rank, std::size_t count, Pipes& pipes);

  int first_failure_ = 0;
  std::map<std::string, std::vector<std::size_t>> endings_;
};

/// "0", "0-2,5".
std::string RankList(const std::vector<std::size_t>& ranks);

}  // namespace divvy
