// Where the output of a job is, and pieces of it. An agent reads the output of jobs on its node.
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/text.h"
#include "daemon/api/jobs/job_detail_routes.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/node/job_log.h"
#include "daemon/views/job_selector.h"
#include "model/run_line.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

std::string ClockText(Time time) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

/// Returns the error for output that cannot be read now, because its node is disconnected. `heard` is when the node was
/// last heard from.
Error Away(const std::string& node, Time heard) {
  const std::string since =
      heard == kNoTime ? " has not been heard from since the controller began" : " is away since " + ClockText(heard);
  return Unreachable("node " + node + since + "; its output can be read when it is back");
}

Error CannotRead(const std::string& what, int error, const std::string& trouble = "") {
  const std::string why = "cannot read " + what + ": " +
                          (!trouble.empty()     ? trouble
                           : error == ETIMEDOUT ? "its file system does not answer; findmnt -T shows which one it is"
                                                : std::strerror(error));
  return error == ENOENT ? NotFound(why) : PermissionDenied(why);
}

void AnswerPiece(ApiCall& call, std::string text, std::int64_t next) {
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.body = std::move(text);
  response.headers.emplace_back("Divvy-Next", std::to_string(next));
  Reply(call.reply).Answer(response);
}

/// Sets the record to its state in this run; returns false if there was no such run.
bool TakeRun(std::int64_t run, const Result<std::vector<Batch::HistoryLine>>& history, JobRecord& record) {
  if (!history) return false;
  for (const Batch::HistoryLine& line : *history) {
    const auto found = ReadRunLine(line.text);
    if (!found || found->run != run) continue;
    record.attempt = found->run;
    record.node = found->node;
    record.gang.clear();
    return true;
  }
  return run > 0 && run == record.attempt && !IsWaiting(record.state);
}

wire::AgentQuestion QuestionOf(const JobRecord& record, const JobSpec& spec, bool is_error, std::int64_t at,
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

/// Returns the node of the job's output: of its present, last or next run; empty for this node. Returns nullopt if it
/// is not certain yet, or there is no such node.
std::optional<std::string> MachineOf(const JobRecord& record, std::span<const Batch::HistoryLine> history,
                                     const Scheduler& cluster) {
  const bool waits = IsWaiting(record.state);
  if (record.array_count > 0) return std::nullopt;  // Each element of an array has its own files.
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
  return request.node_list[0] == cluster.node(kOwnNode).attributes.name ? "" : request.node_list[0];
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

// The log is read with the rights of the job's user, whoever asks (job_log.h).
void JobDetailRoutes::Log(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto number = [&](const char* name) {
    const auto at = call.request.query.find(name);
    return at == call.request.query.end() ? std::optional<std::int64_t>(-1) : ParseInteger(at->second);
  };
  const auto at = number("at"), last = number("last"), run = number("run");
  if (!at || !last || !run) return call.Refuse(InvalidArgument("'at', 'last' and 'run' must be whole numbers"));
  const bool is_error = call.request.query.contains("error");
  FoundJob found = FindHere(driver_, *id);
  api_.reader.Read(call, [=, this, id = *id, caller = call.caller, found = std::move(found)]() mutable -> FinishCall {
    const Status done = Complete(driver_.store(), id, found);
    if (!done || found.spec == nullptr) return RefuseMissing(done, found);
    JobRecord& record = *found.record;
    if (!MaySee(caller, record)) {
      return [name = record.user.name](ApiCall& asked) {
        asked.Refuse(PermissionDenied("job " + asked.argument + " belongs to " + name +
                                      ", and only the owner may read its log"));
      };
    }
    if (*run >= 0 && !TakeRun(*run, driver_.store().HistoryOf(id), record)) {
      return [run = *run](ApiCall& asked) {
        asked.Refuse(NotFound("job " + asked.argument + " had no run " + std::to_string(run)));
      };
    }
    if (!record.node.empty()) {
      return [this, question = QuestionOf(record, *found.spec, is_error, *at, *last)](ApiCall& asked) {
        AskForLog(asked, question);
      };
    }
    const JobLog log = node_.LogOf(record, *found.spec, is_error);
    return [path = log.path, piece = ReadJobLog(log, {.at = *at, .last = *last})](ApiCall& asked) {
      if (piece.error != 0) return asked.Refuse(CannotRead("'" + path + "'", piece.error, piece.trouble));
      AnswerPiece(asked, piece.text, piece.next);
    };
  });
}

void JobDetailRoutes::AskForLog(ApiCall& call, const wire::AgentQuestion& question) {
  const std::string& node = question.record.node;
  Agents* agents = ports_.agents == nullptr ? nullptr : ports_.agents->agents();
  RemoteNode* asked = agents == nullptr ? nullptr : agents->Find(node);
  if (asked == nullptr) {
    const bool is_shut = ports_.agents != nullptr && ports_.agents->registry().Find(node) != nullptr;
    return call.Refuse(is_shut ? Unreachable("node " + node + " cannot be asked for its output: this daemon does not " +
                                             "listen for agents (divvy up --controller)")
                               : NotFound("node " + node + " was removed; its output is only on that machine"));
  }
  const Time heard = asked->heard();
  if (!asked->is_connected()) return call.Refuse(Away(node, heard));
  auto shared = std::make_shared<ApiCall>(std::move(call));
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

std::string JobDetailRoutes::PathOf(const FoundJob& found, const JobSpec& spec, bool is_error) const {
  JobRecord record = *found.record;
  const std::optional<std::string> node = MachineOf(record, found.history, driver_.controller().scheduler());
  if (!node) return SurePath(record, spec, is_error);
  record.node = *node;
  if (record.node.empty()) return is_error ? node_.ErrorOf(record, spec) : node_.OutputOf(record, spec);
  const NodeNames names{record.node, "", record.node};
  const bool is_kept_there = !is_error && spec.output.empty() && !spec.is_foreground;
  const NodeRow* row = ports_.agents == nullptr ? nullptr : ports_.agents->registry().Find(record.node);
  if (is_kept_there && (row == nullptr || !row->facts.logs.starts_with('/'))) return "";
  const std::string path =
      is_error ? ErrorPath(record, spec, names) : OutputPath(record, spec, names, is_kept_there ? row->facts.logs : "");
  return path.empty() ? "" : record.node + ":" + path;
}

}  // namespace divvy
