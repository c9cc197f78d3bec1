// Output of jobs on agents' nodes, which the routes request from the agent; and the check that keeps a foreground job
// on this node, where its caller's terminal is.
#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/api/job_lookup.h"
#include "daemon/api/routes_call.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/node/job_log.h"
#include "model/run_line.h"
#include "model/steps/step_list.h"
#include "wire/messages/step_views.h"

namespace divvy {
namespace {

std::string ClockText(Time time) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

/// The reason why the output cannot be read now. `heard` is the time of the last sign of life.
Error Away(const std::string& node, Time heard) {
  const std::string since =
      heard == kNoTime ? " has not been heard from since the controller began" : " is away since " + ClockText(heard);
  return Unreachable("node " + node + since + "; its output can be read when it is back");
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// Returns the node of the job's output: of its present, last or next run; empty for this node. Returns nullopt if it
/// is not certain yet, or there is no such node.
std::optional<std::string> MachineOf(const JobRecord& record, std::span<const Batch::HistoryLine> history,
                                     const Scheduler& cluster) {
  const bool waits = IsWaiting(record.state);
  if (record.array_count > 0) return std::nullopt;  // Its elements have their own files.
  // If the history holds this run as an earlier one, the job waits for its next run, or was cancelled while waiting.
  for (const Batch::HistoryLine& line : history) {
    const auto run = ReadRunLine(line.text);
    if (run && run->run == record.attempt) return run->node;
  }
  if (IsActive(record.state) || (record.started != kNoTime && !waits)) return record.node;
  if (!waits) return std::nullopt;  // The job ended before it started.
  if (!cluster.has_many()) return "";
  const Request& request = record.request;
  if (request.node_list.size() != 1 || !request.others.empty()) return std::nullopt;
  return request.node_list[0] == cluster.node(kOwnNode).words.name ? "" : request.node_list[0];
}

/// Returns the path if it is the same on every possible node, and for each element of an array; otherwise empty.
std::string SurePath(const JobRecord& record, const JobSpec& spec, bool is_error) {
  const auto filled = [&](std::uint32_t element, const std::string& node) {
    JobRecord one = record;
    if (record.array_count > 0) {
      one.id = ElementId(record.id, element);
      one.array = record.id;
      one.array_index = element;
    }
    const NodeNames names{node, "", node};
    if (is_error) return ErrorPath(one, spec, names);
    return spec.output.empty() ? "" : OutputPath(one, spec, names, "");
  };
  const bool will_never_run = IsFinal(record.state) && record.array_count == 0;
  const std::string path = filled(0, "a");
  return will_never_run || path != filled(1, "b") ? "" : path;
}

}  // namespace

wire::AgentQuestion Routes::QuestionOf(const JobRecord& record, const JobSpec& spec, bool is_error, std::int64_t at,
                                       std::int64_t last) {
  wire::AgentQuestion question;
  question.record = record;
  question.output = spec.output;
  question.error = spec.error;
  question.directory = spec.directory;
  question.is_foreground = spec.is_foreground;
  question.is_error = is_error;
  question.at = at;
  question.last = last;
  return question;
}

void Routes::AskForLog(Call& call, const wire::AgentQuestion& question) {
  const std::string& node = question.record.node;
  Agents* agents = ports_.agents == nullptr ? nullptr : ports_.agents->agents();
  RemoteNode* asked = agents == nullptr ? nullptr : agents->Find(node);
  if (asked == nullptr) {
    const bool is_shut = ports_.agents != nullptr && ports_.agents->book().Find(node) != nullptr;
    return call.Refuse(is_shut ? Unreachable("node " + node + " cannot be asked for its output: this daemon does not " +
                                             "listen for agents (divvy up --controller)")
                               : NotFound("node " + node + " was removed; its output is only on that machine"));
  }
  const Time heard = asked->heard();
  if (!asked->is_connected()) return call.Refuse(Away(node, heard));
  auto shared = std::make_shared<Call>(std::move(call));
  asked->Ask(question, [shared, node, heard](Result<wire::NumberedAnswer> answered) {
    if (!answered) {
      const bool is_away = answered.error().code == ErrorCode::kUnreachable;
      return shared->Refuse(is_away ? Away(node, heard) : answered.error());
    }
    const wire::AgentAnswer& answer = answered->answer;
    if (answer.error != 0) return shared->Refuse(CannotRead("'" + node + ":" + answer.path + "'", answer.error));
    AnswerPiece(*shared, std::move(answered->bytes), answer.next);
  });
}

void Routes::AskForSteps(Call& call, const JobRecord& record, bool has_commands) {
  Agents* agents = ports_.agents == nullptr ? nullptr : ports_.agents->agents();
  RemoteNode* asked = agents == nullptr ? nullptr : agents->Find(record.node);
  // The job does not depend on its steps, so a list omits those that are unavailable now.
  if (asked == nullptr || !asked->is_connected()) return call.Answer(std::vector<wire::StepView>());
  wire::AgentQuestion question;
  question.record = record;
  question.wants_steps = true;
  auto shared = std::make_shared<Call>(std::move(call));
  asked->Ask(std::move(question),
             [shared, has_commands, seats = SeatViewsOf(record)](Result<wire::NumberedAnswer> answered) {
               if (!answered || !answered->answer.are_steps) return shared->Answer(std::vector<wire::StepView>());
               shared->Answer(wire::StepViewsOf(ReadStepList(answered->bytes), kNoTime, has_commands, seats));
             });
}

std::string Routes::PathOf(const Found& found, const JobSpec& spec, bool is_error) const {
  JobRecord record = *found.record;
  const std::optional<std::string> node = MachineOf(record, found.history, core_.controller().scheduler());
  if (!node) return SurePath(record, spec, is_error);
  record.node = *node;
  if (record.node.empty()) return is_error ? node_.ErrorOf(record, spec) : node_.OutputOf(record, spec);
  const NodeNames names{record.node, "", record.node};
  const bool is_kept_there = !is_error && spec.output.empty() && !spec.is_foreground;
  const NodeRow* row = ports_.agents == nullptr ? nullptr : ports_.agents->book().Find(record.node);
  if (is_kept_there && (row == nullptr || !row->facts.logs.starts_with('/'))) return "";
  const std::string path =
      is_error ? ErrorPath(record, spec, names) : OutputPath(record, spec, names, is_kept_there ? row->facts.logs : "");
  return path.empty() ? "" : record.node + ":" + path;
}

divvy::Status Routes::KeepHere(JobSpec& spec) const {
  const Scheduler& cluster = core_.controller().scheduler();
  if (!cluster.has_many()) return {};
  const std::string& own = cluster.node(kOwnNode).words.name;
  const auto refuse = [&own](const std::string& why) {
    return FailedPrecondition(why + "; a job in the foreground has its terminal on this machine (" + own +
                              ") and runs here only. Use divvy submit, and divvy logs -f for its output");
  };
  Request here = spec.request;
  if (here.nodes > 1) return refuse("asks for " + std::to_string(here.nodes) + " nodes");
  const bool is_named = here.node_list.empty() || Contains(here.node_list, own);
  if (!is_named || Contains(here.excluded_nodes, own)) return refuse("must run on other nodes");
  here.node_list = {own};
  if (!spec.queues_anyway) {
    // A request that no node can satisfy gets the usual error.
    DIVVY_CHECK(CheckFeasible(cluster, spec.request, spec.pool));
    if (const divvy::Status fits = CheckFeasible(cluster, here, spec.pool); !fits) return refuse(fits.error().message);
  }
  spec.request = std::move(here);
  return {};
}

}  // namespace divvy
