#include "daemon/agent/agent_logs.h"

#include <cerrno>
#include <utility>

#include "daemon/node/job_log.h"
#include "model/steps/step_list.h"
#include "platform/records/step_list_file.h"

namespace divvy {
namespace {

constexpr Duration kBetweenRounds = std::chrono::hours(1);
constexpr Duration kBetweenSteps = std::chrono::milliseconds(60);

}  // namespace

// Safe on another thread, because the node's names and folders do not change.
AnsweredPiece AnswerOf(const Node& node, const wire::AgentQuestion& question) {
  JobSpec spec;
  spec.output = question.output;
  spec.error = question.error;
  spec.directory = question.directory;
  // A foreground job has a log if its pipes were lost (platform/supervisor/output_holder.h).
  const JobLog log = node.LogOf(question.record, spec, question.is_error);
  AnsweredPiece answered;
  answered.answer.path = log.path;
  answered.answer.next = question.at;
  if (log.path.empty()) {
    answered.answer.error = ENOENT;
    return answered;
  }
  LogPiece piece =
      ReadJobLog(log, {.at = question.at, .last = question.last, .most = static_cast<std::size_t>(wire::kAnswerBytes)});
  answered.answer.next = piece.next;
  answered.answer.size = piece.size;
  answered.answer.error = piece.error;
  answered.bytes = std::move(piece.text);
  return answered;
}

// If there are too many steps, the oldest are dropped.
AnsweredPiece StepsIn(const std::string& list) {
  std::vector<std::string> lines;
  std::size_t size = 0;
  for (const StepLine& step : ReadStepListFile(list)) size += lines.emplace_back(StepLineText(step)).size();
  AnsweredPiece answered;
  answered.answer.path = list;
  answered.answer.are_steps = true;
  for (const std::string& line : lines) {
    if (size <= static_cast<std::size_t>(wire::kAnswerBytes)) answered.bytes += line;
    else size -= line.size();
  }
  return answered;
}

AgentLogs::AgentLogs(const Node& node, const Clock& clock, const Log& log, std::string log_directory, Duration keep,
                     Ports ports)
    : node_(node),
      clock_(clock),
      log_(log),
      keep_(keep),
      ports_(std::move(ports)),
      old_logs_(std::move(log_directory), [this](JobId job) { return alive_.contains(job); }) {}

void AgentLogs::Answer(const wire::AgentQuestion& question, Told told) {
  // The owner of the list is only known to the node, on this thread.
  const std::string steps = question.wants_steps ? node_.StepsOf(question.record) : "";
  readers_.Do(question.record.user.uid, [this, question, steps, told = std::move(told)]() mutable {
    AnsweredPiece answered = steps.empty() ? AnswerOf(node_, question) : StepsIn(steps);
    ports_.post([told = std::move(told), answered = std::move(answered)]() mutable {
      told(std::move(answered.answer), std::move(answered.bytes));
    });
  });
}

void AgentLogs::RemoveOldLogs() {
  if (keep_ <= Duration(0)) return;
  removed_before_ = old_logs_.removed();
  Step(clock_.Now() - keep_);
}

void AgentLogs::Step(Time written_before) {
  readers_.Do(FairWorkers::kOwn, [this, written_before, alive = ports_.alive()]() mutable {
    alive_ = std::move(alive);
    const auto has_more = old_logs_.Step(written_before);
    ports_.post([this, written_before, has_more] {
      if (has_more && *has_more) return ports_.after(kBetweenSteps, [this, written_before] { Step(written_before); });
      if (!has_more) log_.Write(LogLevel::kWarning, "event=remove_logs error=" + LogQuoted(has_more.error().message));
      const std::uint64_t removed = old_logs_.removed() - removed_before_;
      if (removed > 0) log_.Write(LogLevel::kInfo, "event=remove_logs count=" + std::to_string(removed));
      ports_.after(kBetweenRounds, [this] { RemoveOldLogs(); });
    });
  });
}

}  // namespace divvy
