// A step's life, from its place in the queue to the end of its last task.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/duration_text.h"
#include "base/text.h"
#include "platform/records/cancelled_line.h"
#include "platform/steps/step_process.h"
#include "platform/supervisor/supervisor_watch.h"

namespace divvy {
namespace {

constexpr Duration kKillWait = std::chrono::seconds(30);  // Slurm's KillWait.
constexpr Duration kAbandonedGrace = std::chrono::seconds(5);
constexpr Duration kQuitGrace = std::chrono::seconds(10);
constexpr std::int64_t kLimitMost = std::int64_t{100} * 365 * 24 * 3600;  // Seconds.

}  // namespace

std::string StepServer::CannotEver(const StepPlan& plan) const {
  if (resources_.CanEver(plan.need)) return "";
  const std::string has = std::string(", the job has ") + (spreads() ? "on this node " : "");
  std::string why = "it asks for more GPUs of a component" + has + "there";
  if (plan.need.cores > options_.cores && options_.cores > 0)
    why = "it asks for " + Plural(plan.need.cores, "core") + has + std::to_string(options_.cores);
  if (plan.need.gpus && *plan.need.gpus > options_.gpus) {
    why = "it asks for " + Plural(static_cast<std::int64_t>(*plan.need.gpus), "GPU") + has +
          std::to_string(options_.gpus);
  }
  return plan.program + ": error: Unable to create step for job " + plan.name + ": " + why + "\n";
}

RunningStep& StepServer::Enter(StepNumber number, StepCall call, StepPlan plan) {
  RunningStep& step = steps_.try_emplace(number, std::move(call), std::move(plan)).first->second;
  step.line.number = number;
  step.line.command = step.plan.command;
  step.line.name = step.plan.step_name;
  return step;
}

/// Called if the step has to wait for GPUs, here or on another node.
void StepServer::OnBusy(RunningStep& step) {
  if (step.plan.is_immediate) {
    Tell(step, step.plan.program + ": error: Unable to create step for job " + step.plan.name +
                   ": Requested nodes are busy\n");
    return GiveUp(step, 1);
  }
  list_.Write(step.line);
  if (!step.plan.busy.empty() && !std::exchange(step.is_told_busy, true)) Tell(step, step.plan.busy + "\n");
}

void StepServer::GrantNext() {
  for (const StepGrant& grant : resources_.TakeGrants()) {
    const auto at = steps_.find(grant.step);
    if (at != steps_.end()) Begin(at->second, grant);
  }
}

void StepServer::Begin(RunningStep& step, const StepGrant& grant) {
  step.grant = grant;
  if (step.served != nullptr) return step.served->link().Send(GangWord::kGranted, 0, step.GpusHere());
  if (step.plan.spread) return Advance(step);
  StartHere(step);
}

void StepServer::StartHere(RunningStep& step) {
  const StepNumber number = step.served != nullptr ? step.call.part->step : step.line.number;
  auto tasks = step.plan.make(number, step.grant->gpus);
  if (tasks && AwaitsDirectories(step, tasks->tasks)) return;
  Start(step, std::move(tasks));
}

bool StepServer::AwaitsDirectories(RunningStep& step, const std::vector<StepTask>& tasks) {
  const bool is_new = !step.awaited;
  if (is_new) {
    std::set<std::string> directories;
    const auto add = [&](const StepStream& stream, const std::string& from) {
      if (stream.kind != StepStream::Kind::kFile) return;
      directories.insert(DirectoryOf(stream.path.starts_with('/') ? stream.path : from + "/" + stream.path));
    };
    for (const StepTask& task : tasks) {
      for (const StepStream& stream : task.streams) add(stream, task.directory);
    }
    if (step.plan.spread) {
      for (const StepStream& stream : step.plan.spread->files) add(stream, step.plan.directory);
    }
    step.awaited.emplace(DirectoryWatch({}, {directories.begin(), directories.end()}),
                         MonotonicNow() + kDirectoryTimeout);
  }
  const auto missing = step.awaited->watch.FirstMissing();
  // When the time to wait is over, the step starts anyway: opening the file fails, and that failure is reported.
  if (!missing || step.awaited->until <= MonotonicNow()) {
    step.awaited.reset();
    return false;
  }
  if (is_new) {
    list_.Write(step.line);
    Tell(step, step.plan.program + ": waiting up to " + DurationText(kDirectoryTimeout) + " for directory " + *missing +
                   ", which does not exist\n");
  }
  return true;
}

void StepServer::Start(RunningStep& step, Result<StepTasks> tasks) {
  if (!tasks) {
    if (step.served != nullptr) step.served->link().Send(GangWord::kRefused, 1, tasks.error().message + "\n");
    else Tell(step, tasks.error().message + "\n");
    return GiveUp(step, 1);
  }
  step.line.state = StepState::kRunning;
  step.line.started = WallNow();
  SetTimeLimit(step, step.plan.time_limit);
  step.line.tasks = static_cast<int>(step.plan.tasks > 0 ? step.plan.tasks : tasks->tasks.size());
  step.NoteMachines();
  step.line.map = std::move(tasks->map);
  list_.Write(step.line);
  if (step.served != nullptr) step.served->link().Send(GangWord::kMap, 0, StepMapText(step.line.map));
  for (const std::string& launch : step.plan.launches)
    Tell(step, step.plan.program + ": launching " + step.Id() + launch + "\n");
  const std::string failures = step.Start(*tasks, step.client);
  for (std::size_t place = 0; place < step.pids.size(); ++place) {
    if (step.pids[place] > 0) places_[step.pids[place]] = {step.line.number, place};
  }
  if (!failures.empty()) {
    Tell(step, failures);
    // For a part, the node where the step was called decides about the other tasks.
    if (step.served == nullptr) EndSoon(step);
  }
  FinishIfOver(step);
}

void StepServer::Reap() {
  for (;;) {
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // Kills what the task left in its process group. The number belongs to the group until the task is reaped.
    ::kill(-info.si_pid, SIGKILL);
    int status = 0;
    ::waitpid(info.si_pid, &status, 0);
    const auto known = places_.extract(info.si_pid);
    if (!known) continue;
    const auto step = steps_.find(known.mapped().step);
    if (step != steps_.end()) OnTaskEnded(step->second, known.mapped().place, status);
  }
}

void StepServer::OnTaskEnded(RunningStep& step, std::size_t place, int status) {
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  step.NoteEnd(place, WIFSIGNALED(status) ? WTERMSIG(status) : 0, code);
  AfterEnd(step, code);
}

void StepServer::AfterEnd(RunningStep& step, int code) {
  if (step.served != nullptr || step.all_alive() == 0) return FinishIfOver(step);
  const bool is_bad = code != 0 && step.plan.kills_on_bad_exit;
  if (is_bad && !step.was_ended) {
    // The message about the first failure must be printed before the messages about the tasks that are ended now.
    Tell(step, step.TakeEndings());
    EndTasks(step);
  } else if (step.wait_at == kNeverDue && step.plan.wait > Duration(0) && !step.was_ended) {
    step.wait_at = MonotonicNow() + step.plan.wait;
  }
}

void StepServer::EndTasks(RunningStep& step) {
  step.was_ended = true;
  if (!step.plan.is_quiet) Tell(step, step.plan.program + ": Terminating " + step.Id() + "\n");
  EndSoon(step);
  step.wait_at = kNeverDue;
}

void StepServer::EndSoon(RunningStep& step) {
  step.SignalAll(SIGTERM);
  step.kill_at = std::min(step.kill_at, MonotonicNow() + kKillWait);
}

void StepServer::SetTimeLimit(RunningStep& step, Duration limit) {
  if (step.served != nullptr) return;  // The node where it was called ends it.
  step.line.time_limit = limit;
  step.limit_at = limit <= Duration(0) ? kNeverDue : DueAfter(MonotonicNow(), step.line.started + limit - WallNow());
}

void StepServer::OnTimeLimit(RunningStep& step) {
  step.limit_at = kNeverDue;
  step.line.was_cancelled = true;
  const std::string id = "STEP " + step.plan.name + "." + std::to_string(step.line.number);
  Tell(step, step.plan.program + ": error: " + CancelledLine(id, step.plan.host, WallNow()) + "\n");
  step.was_ended = true;
  EndSoon(step);
  step.wait_at = kNeverDue;
}

void StepServer::OnTimers() {
  const Duration now = MonotonicNow();
  for (auto& [number, step] : steps_) {
    if (step.kill_at <= now) {
      step.SignalAll(SIGKILL);
      step.kill_at = kNeverDue;
    }
    if (step.limit_at <= now) OnTimeLimit(step);
    if (step.wait_at <= now) {
      Tell(step, step.plan.program + ": error: First task exited " +
                     std::to_string(std::chrono::duration_cast<std::chrono::seconds>(step.plan.wait).count()) +
                     "s ago\n" + step.plan.program + ": " + step.Id() + " task" + step.AliveText() + ": running\n");
      EndTasks(step);
    }
  }
  std::vector<StepNumber> awaiting;
  for (const auto& [number, step] : steps_) {
    if (step.awaited) awaiting.push_back(number);
  }
  for (const StepNumber number : awaiting) {
    const auto step = steps_.find(number);
    if (step == steps_.end() || !step->second.awaited) continue;
    if (step->second.plan.spread) BeginSpread(step->second);
    else StartHere(step->second);
  }
}

void StepServer::OnInterrupt(Client& client, RunningStep& step, int count) {
  if (step.is_waiting()) {
    Say(client, step.plan.program + ": Cancelled pending job step with signal 2\n");
    return GiveUp(step, 1);
  }
  if (step.plan.quits_on_interrupt) ++count;
  if (count <= 1) {
    return Say(client, step.plan.program + ": interrupt (one more within 1 sec to abort)\n" + step.plan.program + ": " +
                           step.Id() + " task" + step.AliveText() + ": running\n");
  }
  if (count == 2) {
    Say(client, step.plan.program + ": sending Ctrl-C to " + step.Id() + "\n");
    step.SignalAll(SIGINT);
    step.kill_at = std::min(step.kill_at, MonotonicNow() + (step.plan.quits_on_interrupt ? kQuitGrace : kKillWait));
    return;
  }
  Say(client, step.plan.program +
                  (step.plan.program == "srun" ? ": forcing job termination\n" : ": forcing the step's termination\n"));
  step.SignalAll(SIGKILL);
}

void StepServer::OnStop(Client& client, const StepFrame& frame) {
  const auto step = steps_.find(static_cast<StepNumber>(frame.value));
  const auto signal = ParseInteger(frame.body);
  if (step == steps_.end() || !signal || *signal < 1 || *signal >= NSIG)
    return End(client, "Invalid job step id specified\n", 1);
  End(client, "", 0);
  step->second.line.was_cancelled = step->second.is_waiting() || *signal == SIGTERM || *signal == SIGKILL;
  if (step->second.is_waiting()) {
    Tell(step->second, step->second.plan.program + ": Cancelled pending job step\n");
    return GiveUp(step->second, 1);
  }
  step->second.SignalAll(static_cast<int>(*signal));
  if (*signal == SIGTERM) step->second.kill_at = std::min(step->second.kill_at, MonotonicNow() + kKillWait);
}

void StepServer::OnLimit(Client& client, const StepFrame& frame) {
  const auto step = steps_.find(static_cast<StepNumber>(frame.value));
  const auto seconds = ParseInteger(frame.body);
  if (step == steps_.end() || step->second.served != nullptr || !seconds || *seconds < 0 || *seconds > kLimitMost)
    return End(client, "Invalid job step id specified\n", 1);
  const auto limit = std::chrono::seconds(*seconds);
  if (step->second.is_waiting()) {
    step->second.plan.time_limit = limit;
    step->second.line.time_limit = limit;
  } else {
    SetTimeLimit(step->second, limit);
  }
  list_.Write(step->second.line);
  End(client, "", 0);
}

void StepServer::OnAbandoned(StepNumber number) {
  const auto step = steps_.find(number);
  if (step == steps_.end()) return;
  step->second.client = -1;
  Abandon(step->second);
}

void StepServer::Abandon(RunningStep& step) {
  if (step.is_waiting()) return GiveUp(step, 1);
  step.SignalAll(SIGTERM);
  step.kill_at = std::min(step.kill_at, MonotonicNow() + kAbandonedGrace);
}

void StepServer::FinishIfOver(RunningStep& step) {
  if (step.alive > 0) return;
  if (step.served != nullptr) {
    // This part of the step is over only when the output of its tasks was sent to the node that called the step.
    if (step.line.state != StepState::kEnded) return NoteOver(step, step.Code());
    if (step.served->link().is_lost()) steps_.erase(step.line.number);
    return;
  }
  if (step.parts == nullptr || step.parts->are_over()) Finish(step);
}

void StepServer::Finish(RunningStep& step) {
  Tell(step, step.TakeEndings());
  Close(step, step.Code());
}

void StepServer::Close(RunningStep& step, int code) {
  // The end is written to the list before the caller is told: the caller may be the job's last process, and the list is
  // read when that has gone.
  ListEnd(step, code);
  if (step.parts != nullptr) step.parts->Done(code);
  if (Client* client = ClientOf(step)) End(*client, "", code);
  Leave(step);
}

void StepServer::NoteOver(RunningStep& step, int code) {
  ListEnd(step, code);
  Leave(step);
}

void StepServer::ListEnd(RunningStep& step, int code) {
  step.line.state = StepState::kEnded;
  step.line.code = code;
  step.line.ended = WallNow();
  list_.Write(step.line);
}

/// Gives its resources to waiting steps.
void StepServer::Leave(RunningStep& step) {
  const StepNumber number = step.line.number;
  if (step.served == nullptr || step.served->link().is_lost()) steps_.erase(number);
  resources_.Leave(number);
  GrantNext();
}

void StepServer::Tell(const RunningStep& step, const std::string& text) {
  if (text.empty()) return;
  if (step.served != nullptr) step.served->link().Send(GangWord::kSay, 0, text);
  else if (Client* client = ClientOf(step)) Say(*client, text);
}

}  // namespace divvy
