#include "mcp/mcp_tools.h"

#include <algorithm>

#include "base/text.h"
#include "dialect/options/job_options.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/task_options.h"
#include "dialect/script/option_line_limit.h"
#include "mcp/bounded_json.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages.h"

namespace divvy::mcp {
namespace {

constexpr std::int64_t kRowsByDefault = 50;
constexpr std::int64_t kLinesByDefault = 50;
// A log is read to its end in pieces of 1 MiB. The limit matters for a job that writes faster than its log can be read.
constexpr int kMostLogPieces = 64;

std::vector<std::string> TextsOf(JsonValue list) {
  std::vector<std::string> texts;
  for (const JsonValue item : list) texts.emplace_back(item.AsString().value_or(""));
  return texts;
}

std::string TextOf(JsonValue value) { return std::string(value.AsString().value_or("")); }

Result<McpStep> TextStep(Result<std::string> text) {
  if (!text) return text.error();
  return McpStep{.text = *std::move(text)};
}

/// Sends one request and ends with the bounded answer, as the member `name` of an object, or as it is if `name` is
/// empty.
McpStep AskDaemon(std::string method, std::string target, std::string body, std::string_view name = "") {
  return {.request = McpRequest{.method = std::move(method), .target = std::move(target), .body = std::move(body)},
          .then = [name](const HttpResponse& answer) {
            return TextStep(BoundedJson(
                name.empty() ? answer.body : "{\"" + std::string(name) + "\":" + answer.body + "}", kMostAnswerBytes));
          }};
}

/// Sends one request, decodes its answer as a `Message`, and ends with what `show` makes of it.
template <typename Message>
McpStep AskAndShow(std::string method, std::string target, std::string body,
                   std::function<std::string(Message answer)> show) {
  return {.request = McpRequest{.method = std::move(method), .target = std::move(target), .body = std::move(body)},
          .then = [show = std::move(show)](const HttpResponse& answer) -> Result<McpStep> {
            DIVVY_TRY(Message message, wire::Decode<Message>(answer.body));
            return TextStep(BoundedJson(show(std::move(message)), kMostAnswerBytes));
          }};
}

/// The daemon decodes a path before it splits it at "/", so such a word would lead to another route.
Result<std::string> JobPath(JsonValue arguments, std::string_view rest = "") {
  const std::string job = TextOf(arguments["job"]);
  if (job.empty() || job.find('/') != std::string::npos)
    return InvalidArgument("job: '" + job + "': expected an id such as 17, an element 17_3, @, or a name without '/'");
  return "/v1/jobs/" + PercentEncode(job) + std::string(rest);
}

Result<McpStep> QueueTool(JsonValue arguments) {
  wire::JobSelector select;
  select.user = arguments["user"].exists() ? TextOf(arguments["user"]) : "all";
  select.states = TextsOf(arguments["states"]);
  select.name = TextOf(arguments["name"]);
  select.includes_final = arguments["ended"].AsBool().value_or(false) || !select.states.empty();
  select.limit = arguments["limit"].AsInt().value_or(kRowsByDefault);
  return AskDaemon("POST", "/v1/jobs/select", wire::EncodeChanged(select), "jobs");
}

Result<McpStep> ShowTool(JsonValue arguments) {
  DIVVY_TRY(std::string path, JobPath(arguments));
  return AskDaemon("GET", std::move(path), "");
}

Result<McpStep> WhyTool(JsonValue arguments) {
  DIVVY_TRY(std::string path, JobPath(arguments, "/why"));
  return AskDaemon("GET", std::move(path), "");
}

/// The end of a log, while its pieces arrive.
struct LogTail {
  std::string target;  // Without the position.
  std::string text;
  bool is_cut = false;
  int pieces = 0;
};

McpStep NextLogPiece(LogTail tail, std::int64_t at) {
  McpRequest request{.method = "GET", .target = tail.target + "&at=" + std::to_string(at), .body = ""};
  return {.request = std::move(request), .then = [tail](const HttpResponse& answer) -> Result<McpStep> {
            LogTail longer = tail;
            longer.text += answer.body;
            if (longer.text.size() > kMostAnswerBytes) {
              longer.text.erase(0, longer.text.size() - kMostAnswerBytes);
              longer.is_cut = true;
            }
            if (!answer.body.empty() && ++longer.pieces < kMostLogPieces) {
              const auto next = ParseInteger(answer.header("divvy-next"));
              if (!next) return CorruptData("the daemon did not report where the log continues");
              return NextLogPiece(std::move(longer), *next);
            }
            if (longer.text.empty()) return McpStep{.text = "[no output yet]"};
            return McpStep{.text = BoundedTail(longer.text, kMostAnswerBytes, longer.is_cut)};
          }};
}

Result<McpStep> LogsTool(JsonValue arguments) {
  const std::int64_t lines = arguments["lines"].AsInt().value_or(kLinesByDefault);
  LogTail tail;
  DIVVY_TRY(tail.target, JobPath(arguments, "/log?last=" + std::to_string(lines)));
  if (arguments["error"].AsBool().value_or(false)) tail.target += "&error=1";
  return NextLogPiece(std::move(tail), -1);
}

Result<McpStep> GpusTool(JsonValue arguments) {
  using Gpus = std::vector<wire::GpuView>;
  return AskAndShow<Gpus>(
      "GET", "/v1/gpus", "",
      [node = TextOf(arguments["node"]), is_free = arguments["free"].AsBool().value_or(false)](Gpus gpus) {
        std::erase_if(gpus, [&](const wire::GpuView& gpu) {
          return (!node.empty() && gpu.node != node) || (is_free && gpu.state != "free");
        });
        return "{\"gpus\":" + wire::EncodeChanged(gpus) + "}";
      });
}

Result<McpStep> ForecastTool(JsonValue arguments) {
  if (!arguments["job"].exists())
    return AskDaemon("GET", "/v1/starts?limit=" + std::to_string(arguments["limit"].AsInt().value_or(kRowsByDefault)),
                     "");
  DIVVY_TRY(std::string path, JobPath(arguments, "/why"));
  return AskAndShow<wire::WhyView>("GET", std::move(path), "", [](const wire::WhyView& why) {
    wire::WhyView outlook;
    outlook.id = why.id;
    outlook.display_id = why.display_id;
    outlook.state = why.state;
    outlook.summary = why.summary;
    outlook.position = why.position;
    outlook.ahead_gpus = why.ahead_gpus;
    outlook.predicted_start = why.predicted_start;
    outlook.prediction_basis = why.prediction_basis;
    outlook.would_start_now = why.would_start_now;
    outlook.command = why.command;
    return wire::EncodeChanged(outlook);
  });
}

Result<McpStep> ReportTool(const McpPorts& ports, JsonValue arguments) {
  std::string query;
  const auto add = [&](std::string_view name, const std::string& value) {
    query += (query.empty() ? "?" : "&") + std::string(name) + "=" + PercentEncode(value);
  };
  for (const std::string_view name : {"since", "until"}) {
    if (!arguments[name].exists()) continue;
    const dialect::ParseContext around = ports.around();
    const auto moment = dialect::ParsePastMoment(TextOf(arguments[name]), around.now, around.utc_offset);
    if (!moment) return InvalidArgument(std::string(name) + ": " + moment.error().message);
    add(name, std::to_string(ToSeconds(*moment)));
  }
  if (arguments["by"].exists()) add("by", TextOf(arguments["by"]));
  return AskDaemon("GET", "/v1/reports/" + TextOf(arguments["kind"]) + query, "");
}

Result<McpStep> SubmitTool(const McpPorts& ports, JsonValue arguments, bool is_preview) {
  DIVVY_TRY(JobSpec spec, SpecOfArguments(arguments, ports.around()));
  DIVVY_CHECK(ports.finish(spec));
  if (is_preview) {
    return AskDaemon("POST", "/v1/jobs", "{\"is_test\":true,\"spec\":" + wire::EncodeChanged(spec) + "}",
                     "would_submit");
  }
  std::string key;
  if (ports.make_key) {
    DIVVY_TRY(key, ports.make_key());
  }
  const std::string body =
      "{\"spec\":" + wire::EncodeChanged(spec) + (key.empty() ? "" : ",\"key\":\"" + key + "\"") + "}";
  McpStep step = AskAndShow<wire::SubmitAnswer>(
      "POST", "/v1/jobs", body, [](const wire::SubmitAnswer& answer) { return wire::EncodeChanged(answer); });
  step.request->has_key = !key.empty();
  return step;
}

Result<wire::JobSelector> SelectedJobs(JsonValue arguments) {
  wire::JobSelector select;
  select.ids = TextsOf(arguments["jobs"]);
  if (select.ids.empty()) return InvalidArgument("jobs: the list is empty; name at least one job");
  return select;
}

std::string WouldCancel(const std::vector<wire::JobView>& jobs) {
  std::string out;
  JsonWriter writer(out);
  writer.BeginObject();
  writer.Key("would_cancel");
  writer.BeginArray();
  for (const wire::JobView& job : jobs) {
    writer.BeginObject();
    writer.Member("job", job.display_id);
    writer.Member("name", job.name);
    writer.Member("user", job.user);
    writer.Member("state", job.state);
    writer.Member("count", job.count);
    writer.EndObject();
  }
  writer.EndArray();
  writer.Member("note", std::string(jobs.empty() ? "None of these jobs is queued or running."
                                                 : "The daemon refuses jobs that the caller may not cancel."));
  writer.EndObject();
  return out;
}

Result<McpStep> PreviewCancelTool(JsonValue arguments) {
  DIVVY_TRY(wire::JobSelector select, SelectedJobs(arguments));
  select.user = "all";
  return AskAndShow<std::vector<wire::JobView>>("POST", "/v1/jobs/select", wire::EncodeChanged(select), WouldCancel);
}

Result<McpStep> CancelTool(JsonValue arguments) {
  wire::ActionRequest request;
  DIVVY_TRY(request.select, SelectedJobs(arguments));
  request.reason = TextOf(arguments["reason"]);
  return AskAndShow<wire::ActionAnswer>("POST", "/v1/jobs/cancel", wire::EncodeChanged(request),
                                        [](const wire::ActionAnswer& answer) { return wire::EncodeChanged(answer); });
}

constexpr std::string_view kJobSchema =
    R"({"type":"object","properties":{"job":{"type":"string","maxLength":256,"description":"id (17), array element (17_3), name, or @ for the caller's last job"}},"required":["job"],"additionalProperties":false})";

constexpr std::string_view kQueueSchema =
    R"({"type":"object","properties":{)"
    R"("user":{"type":"string","description":"only jobs of this user; default: all users"},)"
    R"("states":{"type":"array","maxItems":11,"items":{"type":"string","enum":["held","queued","starting","running","paused","stopping","succeeded","failed","cancelled","timed_out","lost"]}},)"
    R"("name":{"type":"string"},)"
    R"("ended":{"type":"boolean","description":"include jobs that have ended"},)"
    R"("limit":{"type":"integer","minimum":1,"maximum":200,"description":"default 50"}},"additionalProperties":false})";

constexpr std::string_view kLogsSchema =
    R"({"type":"object","properties":{)"
    R"("job":{"type":"string","maxLength":256,"description":"id (17), array element (17_3), name, or @ for the caller's last job"},)"
    R"("lines":{"type":"integer","minimum":1,"maximum":500,"description":"from the end; default 50"},)"
    R"("error":{"type":"boolean","description":"the separate file for standard error"}},"required":["job"],"additionalProperties":false})";

constexpr std::string_view kGpusSchema =
    R"({"type":"object","properties":{)"
    R"("node":{"type":"string","description":"only GPUs of this node"},)"
    R"("free":{"type":"boolean","description":"only GPUs that are free"}},"additionalProperties":false})";

constexpr std::string_view kForecastSchema =
    R"({"type":"object","properties":{)"
    R"("job":{"type":"string","maxLength":256,"description":"one job; without it, all waiting jobs"},)"
    R"("limit":{"type":"integer","minimum":1,"maximum":200,"description":"default 50"}},"additionalProperties":false})";

constexpr std::string_view kReportSchema =
    R"({"type":"object","properties":{)"
    R"("kind":{"type":"string","enum":["usage","waste","efficiency","fairness","shares","predictions","speeds"]},)"
    R"("since":{"type":"string","description":"7d (ago), yesterday or 2026-03-01"},)"
    R"("until":{"type":"string"},)"
    R"("by":{"type":"string","enum":["user","team","name","model","pool","node","hour","job"]}},"required":["kind"],"additionalProperties":false})";

constexpr std::string_view kSubmitSchema =
    R"({"type":"object","properties":{)"
    R"("command":{"type":"array","maxItems":10000,"items":{"type":"string"},"description":"the program and its arguments, without a shell; or the arguments of script"},)"
    R"("script":{"type":"string","description":"the text of a script instead; its #SBATCH, # GFLOW and # DIVVY lines count"},)"
    R"("gpus":{"type":"string","description":"2, 2..8, 0.25 or 2x0.5; default: 0"},)"
    R"("time":{"type":"string","description":"time limit: 90m, 2h"},)"
    R"("name":{"type":"string"},)"
    R"("directory":{"type":"string","description":"absolute; default: the directory of this server"},)"
    R"("options":{"type":"array","maxItems":200,"items":{"type":"string"},"description":"further options of divvy submit, such as --memory=64G, --after=17, --array=0-9%2 or --env=NAME=VALUE"}},"additionalProperties":false})";

constexpr std::string_view kCancelSchema =
    R"({"type":"object","properties":{)"
    R"("jobs":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":256},"description":"ids such as 17, 17_3 or 17_[1-3]"},)"
    R"("reason":{"type":"string"}},"required":["jobs"],"additionalProperties":false})";

constexpr std::string_view kPreviewCancelSchema =
    R"({"type":"object","properties":{)"
    R"("jobs":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":256},"description":"ids such as 17, 17_3 or 17_[1-3]"}},"required":["jobs"],"additionalProperties":false})";

}  // namespace

Result<JobSpec> SpecOfArguments(JsonValue arguments, dialect::ParseContext around) {
  // Standard input belongs to the protocol, and the client chooses the words: it must not read files of this machine.
  around.read_file = nullptr;
  JobSpec spec;
  const std::vector<std::string> command = TextsOf(arguments["command"]);
  const std::string script = TextOf(arguments["script"]);
  if (command.empty() && script.empty())
    return InvalidArgument("nothing to run: give command, for example [\"python\", \"train.py\"], or script");
  std::vector<std::string> words;
  for (const auto& [argument, option] : {std::pair("gpus", "--gpus="), std::pair("time", "--time="),
                                         std::pair("name", "--name="), std::pair("directory", "--chdir=")}) {
    if (arguments[argument].exists()) words.push_back(option + TextOf(arguments[argument]));
  }
  for (std::string& word : TextsOf(arguments["options"])) words.push_back(std::move(word));
  DIVVY_CHECK(dialect::CheckOptionLines(script, Join(words, " ").size()));
  if (!script.empty()) DIVVY_CHECK(dialect::ReadScript(script, "script", around, spec));
  DIVVY_TRY(const dialect::Parsed parsed, dialect::ParseOptions(dialect::JobOptions(spec, around), words));
  if (!parsed.positional.empty() || parsed.saw_dashes) {
    const std::string word = parsed.positional.empty() ? "--" : parsed.positional.front();
    return InvalidArgument("options: '" + word + "' is not an option; the program and its arguments belong in command");
  }
  (script.empty() ? spec.command : spec.arguments) = command;
  if (spec.directory.empty()) spec.directory = around.directory;
  dialect::CompleteTasks(spec);
  dialect::CompletePortion(spec);
  DIVVY_CHECK(dialect::CheckComplete(spec));
  return spec;
}

Result<std::set<std::string, std::less<>>> ParseAllowedTools(std::string_view names) {
  std::set<std::string, std::less<>> allowed;
  for (const std::string_view part : Split(names, ',')) {
    const std::string_view name = Trim(part);
    if (name != "submit" && name != "cancel")
      return InvalidArgument("'" + std::string(name) +
                             "' is not a tool that can be allowed; expected submit or cancel");
    allowed.emplace(name);
  }
  return allowed;
}

std::vector<McpTool> McpTools(const McpPorts& ports) {
  std::vector<McpTool> tools;
  tools.push_back({"queue", "List jobs",
                   "Lists waiting and running jobs in queue order, with the reason why each waits.", kQueueSchema,
                   false, false, "", QueueTool});
  tools.push_back({"show", "Show a job", "Returns everything about one job: request, GPUs, times, exit code, history.",
                   kJobSchema, false, false, "", ShowTool});
  tools.push_back({"why", "Explain a waiting job",
                   "Returns what keeps a job from starting, which jobs hold what it lacks, its position, its expected "
                   "start, and the smallest change that would start it now.",
                   kJobSchema, false, false, "", WhyTool});
  tools.push_back({"logs", "Read a job's output", "Returns the last lines of a job's output.", kLogsSchema, false,
                   false, "", LogsTool});
  tools.push_back({"gpus", "List GPUs", "Lists the GPUs with their state, jobs, memory and utilization.", kGpusSchema,
                   false, false, "", GpusTool});
  tools.push_back({"forecast", "Forecast starts",
                   "Returns when waiting jobs should start, and the basis of each estimate. For a job that is not "
                   "submitted yet, use preview_submit.",
                   kForecastSchema, false, false, "", ForecastTool});
  tools.push_back({"report", "Reports",
                   "Returns a report over a period: usage, waste, efficiency, fairness, shares, predictions or speeds.",
                   kReportSchema, false, false, "",
                   [ports](JsonValue arguments) { return ReportTool(ports, arguments); }});
  tools.push_back({"preview_submit", "Preview a submission",
                   "Checks a submission and forecasts its start, without submitting it. Takes the arguments of submit.",
                   kSubmitSchema, false, false, "",
                   [ports](JsonValue arguments) { return SubmitTool(ports, arguments, true); }});
  tools.push_back({"preview_cancel", "Preview a cancellation",
                   "Lists the jobs that cancel would end, without ending them.", kPreviewCancelSchema, false, false, "",
                   PreviewCancelTool});
  tools.push_back({"submit", "Submit a job", "Submits a job as the user of this server. Call preview_submit first.",
                   kSubmitSchema, true, false, "preview_submit",
                   [ports](JsonValue arguments) { return SubmitTool(ports, arguments, false); }});
  tools.push_back({"cancel", "Cancel jobs", "Ends running jobs and removes waiting ones. Call preview_cancel first.",
                   kCancelSchema, true, true, "preview_cancel", CancelTool});
  return tools;
}

}  // namespace divvy::mcp
