#include "cli/services/serve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/duration_text.h"
#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/client/progress_indicator.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/task_options.h"
#include "dialect/service/service_file.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_teams.h"
#include "wire/services/service_messages.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

constexpr std::string_view kServeUsage =
    "divvy serve create NAME [OPTIONS] -- COMMAND... | apply FILE | list | show NAME | logs NAME [REPLICA] | "
    "scale NAME MIN..MAX | update NAME [OPTIONS] [-- COMMAND...] | promote NAME | rollback NAME [REVISION] | delete "
    "NAME...";

Status ReadServiceCount(std::string_view text, std::int64_t& out) {
  const auto number = ParseInteger(Trim(text));
  if (!number) return InvalidArgument("'" + std::string(text) + "' is not a whole number");
  out = *number;
  return {};
}

/// "3" or "0..8"
Status ReadReplicaRange(std::string_view text, std::int64_t& least, std::int64_t& most) {
  const auto dots = text.find("..");
  const auto first = ParseInteger(Trim(text.substr(0, dots)));
  const auto last = dots == std::string_view::npos ? first : ParseInteger(Trim(text.substr(dots + 2)));
  if (!first || !last) return InvalidArgument("'" + std::string(text) + "' is not MIN..MAX; write it like 0..8, or 3");
  least = *first;
  most = *last;
  return {};
}

Result<std::string> ReadCallersFile(std::string_view path) {
  const auto text = CallerParseContext().read_file(std::string(path));
  if (!text) return text.error();
  if (text->empty()) return InvalidArgument("the file " + std::string(path) + " is empty");
  return *text;
}

std::vector<Option> ServiceTable(wire::ServiceDefinition& definition) {
  wire::ServiceSettings& settings = definition.settings;
  wire::ServiceSecrets& secrets = definition.secrets;
  std::vector<Option> table;
  const auto add = [&](std::string_view name, std::string_view value, std::string_view help, dialect::Apply apply) {
    table.push_back({name,
                     0,
                     value.empty() ? Takes::kNothing : Takes::kValue,
                     value,
                     help,
                     std::move(apply),
                     {},
                     false,
                     dialect::OptionGroup::kMostUsed});
  };
  const auto count = [](std::int64_t& target) {
    return [&target](std::string_view value) { return ReadServiceCount(value, target); };
  };
  const auto number = [](double& target) {
    return [&target](std::string_view value) -> Status {
      const auto read = ParseNumber(Trim(value));
      if (!read) return InvalidArgument("'" + std::string(value) + "' is not a number");
      target = *read;
      return {};
    };
  };
  const auto delay = [](double& target) {
    return [&target](std::string_view value) -> Status {
      DIVVY_TRY(const Duration read, dialect::ParseDuration(value, std::chrono::seconds(1)));
      target = ToSeconds(read);
      return {};
    };
  };
  add("replicas", "MIN..MAX", "How many replicas: a number, or a range to scale in (default: 1)",
      [&settings](std::string_view value) {
        return ReadReplicaRange(value, settings.min_replicas, settings.max_replicas);
      });
  add("port", "PORT", "Port of the service (default: a free one from 8000 on)", count(settings.port));
  add("concurrency", "N", "Requests that a replica gets at a time; more wait (default: 1)",
      count(settings.concurrency));
  add("target", "N", "Requests in flight per replica to scale for (default: 0.7 of --concurrency)",
      number(settings.target));
  add("target-metric", "NAME", "Scale by this metric of the replicas, with --target per replica; '': by requests again",
      dialect::Keeps(settings.metric));
  add("rps", "N", "Scale for this many requests per second and replica instead", number(settings.requests_per_second));
  add("health", "PATH", "Path of a health check over HTTP (default: the port is open)",
      dialect::Keeps(settings.health));
  add("idle", "TIME", "Park or stop the last replica after this time without requests (default: 10m)",
      delay(settings.idle_s));
  add("up-delay", "TIME", "How long more replicas must be needed (default: 0s)", delay(settings.up_delay_s));
  add("down-delay", "TIME", "How long fewer replicas must be needed (default: 5m)", delay(settings.down_delay_s));
  add("ready-within", "TIME", "How long a replica may take to answer after its start (default: 10m)",
      delay(settings.ready_within_s));
  add("wait", "TIME", "How long a request waits for a replica (default: 1m)", delay(settings.wait_s));
  add("answer-within", "TIME", "How long a replica may be silent while it answers (default: 5m)",
      delay(settings.answer_within_s));
  add("wake-within", "TIME", "Report parked replicas that take longer to wake", delay(settings.wake_within_s));
  add("max-body", "SIZE", "Largest body of a request (default: any)", [&settings](std::string_view value) -> Status {
    DIVVY_TRY(const Bytes size, dialect::ParseSize(value, 1));
    settings.max_body_bytes = size.count();
    return {};
  });
  add("no-park", "", "Stop idle replicas, never park them", dialect::Sets(settings.parks, false));
  add("canary", "PERCENT", "With update: give the new revision this share of the requests, such as 10%",
      [&definition](std::string_view value) -> Status {
        std::string_view percent = Trim(value);
        if (percent.ends_with('%')) percent.remove_suffix(1);
        const auto read = ParseNumber(Trim(percent));
        if (!read || *read < 1 || *read > 99)
          return InvalidArgument("'" + std::string(value) + "' is not a share: expected 1% to 99%, such as 10%");
        definition.canary = *read / 100;
        return {};
      });
  // The caller reads the files, with the caller's rights.
  add("tls-cert", "FILE", "Serve HTTPS: PEM with the certificate, those of its issuers, and its key",
      dialect::Reads(secrets.certificate, ReadCallersFile));
  add("token-file", "FILE", "Take only requests with one of these tokens, one in each line, at most 16",
      [&secrets](std::string_view value) -> Status {
        DIVVY_TRY(const std::string text, ReadCallersFile(value));
        secrets.tokens.clear();
        for (const std::string_view line : Split(text, '\n')) {
          if (!Trim(line).empty()) secrets.tokens.emplace_back(Trim(line));
        }
        if (secrets.tokens.empty()) return InvalidArgument("the file has no token; --no-tokens removes all");
        return {};
      });
  add("new-token", "", "Add a token that divvy makes and prints once", dialect::Sets(secrets.makes_token));
  add("no-tls", "", "Serve HTTP again", dialect::Sets(secrets.removes_certificate));
  add("no-tokens", "", "Remove all tokens", dialect::Sets(secrets.removes_tokens));
  return table;
}

/// Applies options and a command to a definition: a new one, or that of a service. `command`: the command in a service
/// file; there, names of options cannot be abbreviated.
Status ReadDefinition(Words words, const Words& command, wire::ServiceDefinition& definition) {
  const dialect::ParseContext around = CallerParseContext();
  std::vector<Option> table = ServiceTable(definition);
  for (Option& option : dialect::JobOptions(definition.spec, around)) table.push_back(std::move(option));
  DIVVY_TRY(const dialect::Parsed parsed, dialect::ParseOptions(table, words, {false, command.empty(), false, {}}));
  if (!parsed.positional.empty())
    return InvalidArgument("unexpected '" + parsed.positional.front() +
                           "'; the command of a replica comes behind --: -- python serve.py");
  JobSpec& spec = definition.spec;
  const Words& run = command.empty() ? parsed.after_dashes : command;
  if (!run.empty()) {
    spec.command = run;
    spec.script.clear();
    spec.arguments.clear();
  }
  if (spec.command.empty() && spec.script.empty())
    return InvalidArgument("nothing to run: write the command of a replica behind --, such as -- python serve.py");
  if (spec.directory.empty()) spec.directory = around.directory;
  dialect::CompleteTasks(spec);
  dialect::CompletePortion(spec);
  return dialect::CheckComplete(spec);
}

Result<std::string> SendDefinition(Api& api, const std::string& path, wire::ServiceDefinition definition) {
  DIVVY_CHECK(FinishSpec(definition.spec, api));
  DIVVY_TRY(const std::string text, api.Raw("POST", path, wire::EncodeChanged(definition)));
  DIVVY_TRY(const auto answer, DecodeShown<wire::MessageAnswer>(text));
  return answer.message;
}

int PrintAnswer(const Result<std::string>& done) {
  if (!done) return Fail(done.error());
  std::printf("%s\n", done->c_str());
  return 0;
}

/// Removes the service's name from the words and returns it. It may be before or between the options.
Result<std::string> TakeName(Words& words, std::string_view usage) {
  if (!words.empty() && !words.front().starts_with('-')) {
    std::string name = words.front();
    words.erase(words.begin());
    return name;
  }
  return InvalidArgument("the name of the service comes first: " + std::string(usage));
}

Result<std::string> CreateService(Words words) {
  wire::ServiceDefinition definition;
  DIVVY_TRY(definition.settings.name, TakeName(words, "divvy serve create NAME [OPTIONS] -- COMMAND..."));
  DIVVY_CHECK(ReadDefinition(std::move(words), {}, definition));
  DIVVY_TRY(Api api, Api::Connect());
  return SendDefinition(api, "/v1/services", std::move(definition));
}

Result<std::string> UpdateService(Words words) {
  DIVVY_TRY(const std::string name, TakeName(words, "divvy serve update NAME [OPTIONS] [-- COMMAND...]"));
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/services/" + name + "/definition", ""));
  DIVVY_TRY(wire::ServiceDefinition definition, wire::Decode<wire::ServiceDefinition>(text));
  DIVVY_CHECK(ReadDefinition(std::move(words), {}, definition));
  definition.keeps_same = true;
  return SendDefinition(api, "/v1/services/" + name, std::move(definition));
}

/// Refuses settings that would act only once, because a file may be applied many times.
Status CheckEntry(const wire::ServiceDefinition& definition) {
  const std::string& name = definition.settings.name;
  if (definition.secrets.makes_token)
    return InvalidArgument(
        "the key new-token is not for a file, because each apply would add a token; run divvy serve "
        "update " +
        name + " --new-token");
  if (definition.canary != 0)
    return InvalidArgument("the key canary is not for a file; run divvy serve update " + name + " --canary PERCENT");
  return {};
}

/// Creates the services of the file that do not exist, and updates the others.
int ApplyServices(const Words& words) {
  if (words.size() != 1) return Fail(InvalidArgument("name one file: divvy serve apply FILE"));
  DIVVY_TRY_OR_FAIL(const auto text, CallerParseContext().read_file(words.front()));
  DIVVY_TRY_OR_FAIL(const auto entries, dialect::ReadServiceFile(text, words.front()));
  // All services are checked before the first one is changed.
  std::vector<wire::ServiceDefinition> definitions;
  for (const dialect::ServiceEntry& entry : entries) {
    wire::ServiceDefinition& definition = definitions.emplace_back();
    definition.settings.name = entry.name;
    definition.keeps_same = true;
    Status read = ReadDefinition(entry.options, entry.command, definition);
    if (read) read = CheckEntry(definition);
    if (!read)
      return Fail({read.error().code, words.front() + ":" + std::to_string(entry.line) + ": service '" + entry.name +
                                          "': " + read.error().message});
  }
  int code = 0;
  for (wire::ServiceDefinition& definition : definitions) {
    const auto send = [&]() -> Result<std::string> {
      DIVVY_TRY(Api api, Api::Connect());
      const std::string path = "/v1/services/" + definition.settings.name;
      const auto known = api.Raw("GET", path, "");
      if (!known && known.error().code != ErrorCode::kNotFound) return known.error();
      return SendDefinition(api, known ? path : "/v1/services", std::move(definition));
    };
    code = std::max(code, PrintAnswer(send()));
  }
  return code;
}

Colour ColourOfService(const std::string& state) {
  if (state == "hot" || state == "ready") return Colour::kGreen;
  if (state == "failing") return Colour::kRed;
  return state == "cold" || state == "parked" || state == "parking" ? Colour::kDim : Colour::kYellow;
}

std::string ShortText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f" : "%.0f", value);
  return text;
}

std::string MillisecondsText(double seconds) { return std::to_string(std::lround(seconds * 1000)) + " ms"; }

/// "85 ms", "2.5 s"; in CSV seconds. Empty: unknown.
std::string LatencyText(const std::optional<double>& seconds, bool is_csv) {
  if (!seconds) return "";
  char text[32];
  if (is_csv) std::snprintf(text, sizeof text, "%.4g", *seconds);
  else if (*seconds < 1) std::snprintf(text, sizeof text, "%.0f ms", *seconds * 1000);
  else std::snprintf(text, sizeof text, "%.1f s", *seconds);
  return text;
}

std::string CostText(double cost) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", cost);
  return text;
}

std::string RangeText(const wire::ServiceSettings& settings) {
  return std::to_string(settings.min_replicas) + ".." + std::to_string(settings.max_replicas);
}

int ListServices(const Words& words) {
  static const std::vector<Column> columns = {{"NAME"},
                                              {"USER", false, true, false, true},
                                              {"STATE"},
                                              {"REPLICAS", true},
                                              {"HOT", true},
                                              {"PARKED", true},
                                              {"RPS", true},
                                              {"IN-FLIGHT", true},
                                              {"QUEUED", true},
                                              {"P50", true, true, false, true, false, "latency_p50_s"},
                                              {"P95", true, true, false, true, false, "latency_p95_s"},
                                              {"P99", true, true, false, true, false, "latency_p99_s"},
                                              {"GPUS", true, true, false, true},
                                              {"COST/1K", true, true, false, true, false, "cost_per_1000_requests"},
                                              {"URL", false, true, false, true},
                                              {"NOTE", false, true, true, true, true}};
  ListingOptions listing;
  const auto parsed = dialect::ParseOptions(ListingOptionTable(listing), words);
  if (!parsed) return Fail(parsed.error());
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/services", ""));
    if (listing.json) return text + "\n";
    DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::ServiceView>>(text));
    if (views.empty() && !listing.csv) return std::string("No services.\n");
    std::vector<std::vector<Cell>> rows;
    for (const wire::ServiceView& view : views) {
      rows.push_back({{view.name, Colour::kBold},
                      {view.user},
                      {view.state, ColourOfService(view.state)},
                      {RangeText(view.settings)},
                      {std::to_string(view.hot)},
                      {std::to_string(view.parked)},
                      {ShortText(view.requests_per_second)},
                      {std::to_string(view.in_flight)},
                      {std::to_string(view.queued)},
                      {LatencyText(view.latency_p50_s, listing.csv)},
                      {LatencyText(view.latency_p95_s, listing.csv)},
                      {LatencyText(view.latency_p99_s, listing.csv)},
                      {ShortText(view.gpus)},
                      {view.cost_per_1000_requests ? CostText(*view.cost_per_1000_requests) : ""},
                      {view.url},
                      {view.note}});
    }
    return RenderTable(columns, rows, listing);
  });
}

std::string ServiceHeadline(const wire::ServiceDetail& view) {
  std::string text = "service " + view.name + " of " + view.user + ", " + view.state + ": " + view.url + "\n";
  text += "  replicas " + RangeText(view.settings) + ": " + std::to_string(view.hot) + " hot, " +
          std::to_string(view.starting) + " starting, " + std::to_string(view.parked) + " parked, " +
          std::to_string(view.draining) + " draining; revision " + std::to_string(view.revision) + "\n";
  if (view.canary)
    text += "  canary: revision " + std::to_string(view.canary->revision) + " gets " +
            ShortText(view.canary->share * 100) + "% of the requests; " + std::to_string(view.canary->hot) + " hot, " +
            std::to_string(view.canary->starting) + " starting; " + std::to_string(view.canary->requests) +
            " requests, " + std::to_string(view.canary->errors) + " failed" +
            (view.canary->latency_p50_s ? "; p50 " + LatencyText(view.canary->latency_p50_s, false) + ", p99 " +
                                              LatencyText(view.canary->latency_p99_s, false)
                                        : "") +
            "\n";
  if (view.tokens > 0)
    text += "  requests need one of " + std::to_string(view.tokens) + " tokens: Authorization: Bearer TOKEN\n";
  text += "  " + ShortText(view.requests_per_second) + " requests/s, " + std::to_string(view.in_flight) +
          " in flight, " + std::to_string(view.queued) + " of them waiting; " + Plural(view.requests, "request") +
          " so far, " + std::to_string(view.errors) + " failed\n";
  if (!view.settings.metric.empty())
    text += "  " + view.settings.metric + ": " + (view.metric ? ShortText(*view.metric) : std::string("unknown")) +
            ", target " + ShortText(view.settings.target) + " per replica\n";
  text += "  mean times: " + MillisecondsText(view.queue_time_s) + " in the queue, " +
          MillisecondsText(view.answer_time_s) + " until the answer";
  if (view.last_wake_s > 0) text += "; last wake " + MillisecondsText(view.last_wake_s);
  text += "\n";
  const auto quantiles = [](const std::optional<double>& p50, const std::optional<double>& p95,
                            const std::optional<double>& p99) {
    return "p50 " + LatencyText(p50, false) + ", p95 " + LatencyText(p95, false) + ", p99 " + LatencyText(p99, false);
  };
  if (view.recent_requests > 0) {
    text += "  last 5 min: " + std::to_string(view.recent_requests) + " answered; latency " +
            quantiles(view.latency_p50_s, view.latency_p95_s, view.latency_p99_s) + "\n";
    if (view.first_byte_p50_s)
      text +=
          "  until the first byte: " + quantiles(view.first_byte_p50_s, view.first_byte_p95_s, view.first_byte_p99_s) +
          "\n";
  }
  text += "  " + ShortText(view.gpus) + " GPUs held";
  if (view.gpus_used) text += ", " + ShortText(*view.gpus_used) + " used in the last minute";
  if (view.cost_per_hour) text += "; cost " + CostText(*view.cost_per_hour) + " per hour";
  if (view.cost_per_1000_requests) text += ", " + CostText(*view.cost_per_1000_requests) + " per 1,000 requests";
  text += "\n";
  if (!view.scaled.empty()) text += "  last change of scale: " + view.scaled + "\n";
  if (!view.note.empty()) text += "  note: " + view.note + "\n";
  return text;
}

std::string AgoText(double since, double now) {
  return DurationText(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(now - since)));
}

int ShowService(const Words& words) {
  static const std::vector<Column> columns = {
      {"REPLICA", true}, {"JOB", true},       {"STATE"}, {"REVISION", true},
      {"ADDRESS"},       {"IN-FLIGHT", true}, {"SINCE"}, {"NOTE", false, true, true, true, true}};
  ListingOptions listing;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ListingOptionTable(listing), words));
  if (parsed.positional.size() != 1) return Fail(InvalidArgument("name one service: divvy serve show NAME"));
  return ShowListing(listing, [&, name = parsed.positional.front()]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/services/" + name, ""));
    if (listing.json) return text + "\n";
    DIVVY_TRY(const auto view, DecodeShown<wire::ServiceDetail>(text));
    const double now = ToSeconds(std::chrono::system_clock::now().time_since_epoch());
    std::vector<std::vector<Cell>> rows;
    for (const wire::ServiceReplicaView& replica : view.replicas) {
      rows.push_back({{std::to_string(replica.number), Colour::kBold},
                      {ToString(replica.job)},
                      {replica.state, ColourOfService(replica.state)},
                      {std::to_string(replica.revision)},
                      {replica.address},
                      {std::to_string(replica.in_flight)},
                      {AgoText(replica.since, now)},
                      {replica.note}});
    }
    DIVVY_TRY(const std::string table, RenderTable(columns, rows, listing));
    if (listing.csv) return table;
    std::string shown = ServiceHeadline(view);
    if (!rows.empty()) shown += table;
    for (const wire::ServiceRevisionView& revision : view.revisions)
      shown += "  revision " + std::to_string(revision.number) + ", " + revision.state + ": " + revision.command +
               (revision.note.empty() ? "" : " (" + revision.note + ")") + "\n";
    for (const wire::ServiceEvent& event : view.events)
      shown += "  " + AgoText(event.at, now) + " ago: " + event.text + "\n";
    return shown;
  });
}

/// The output of a replica: the newest one unless its number is given.
int ServiceLogs(const Words& words) {
  Words options;
  Words names;
  for (const std::string& word : words) (word.starts_with('-') ? options : names).push_back(word);
  const auto number = names.size() == 2 ? ParseInteger(names[1]) : std::nullopt;
  if (names.empty() || names.size() > 2 || (names.size() == 2 && !number))
    return Fail(InvalidArgument("name a service, and a replica by its number: divvy serve logs NAME [REPLICA]"));
  const auto find = [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/services/" + names[0], ""));
    DIVVY_TRY(const auto view, DecodeShown<wire::ServiceDetail>(text));
    for (auto at = view.replicas.rbegin(); at != view.replicas.rend(); ++at) {
      if (!number || at->number == *number) return ToString(at->job);
    }
    return NotFound("service " + names[0] + " has " +
                    (number ? "no replica " + std::to_string(*number) : std::string("no replica now")) +
                    "; divvy serve show " + names[0] + " lists them, and its events name the jobs of earlier ones");
  };
  DIVVY_TRY_OR_FAIL(const auto job, find());
  options.push_back(job);
  return LogsMain(options);
}

Result<std::string> PostToService(const std::string& name, std::string_view verb, const std::string& body) {
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("POST", "/v1/services/" + name + "/" + std::string(verb), body));
  DIVVY_TRY(const auto answer, DecodeShown<wire::MessageAnswer>(text));
  return answer.message;
}

Result<std::string> ScaleService(const Words& words) {
  if (words.size() != 2) return InvalidArgument("name a service and its replicas: divvy serve scale NAME MIN..MAX");
  wire::ServiceScale scale;
  DIVVY_CHECK(ReadReplicaRange(words[1], scale.min_replicas, scale.max_replicas));
  return PostToService(words[0], "scale", wire::Encode(scale));
}

Result<std::string> PromoteService(const Words& words) {
  if (words.size() != 1) return InvalidArgument("name one service: divvy serve promote NAME");
  return PostToService(words[0], "promote", "");
}

Result<std::string> RollBackService(const Words& words) {
  wire::ServiceRollback request;
  const auto number = words.size() == 2 ? ParseInteger(words[1]) : std::optional<std::int64_t>(0);
  if (words.empty() || words.size() > 2 || !number)
    return InvalidArgument("name a service, and a revision by its number: divvy serve rollback NAME [REVISION]");
  request.revision = *number;
  return PostToService(words[0], "rollback", wire::Encode(request));
}

int DeleteServices(const Words& words) {
  if (words.empty()) return Fail(InvalidArgument("name a service: divvy serve delete NAME"));
  int code = 0;
  for (const std::string& name : words) code = std::max(code, PrintAnswer(PostToService(name, "delete", "")));
  return code;
}

}  // namespace

std::vector<Option> ServeOptions() {
  static wire::ServiceDefinition scratch;
  static const dialect::ParseContext around;
  std::vector<Option> table = ServiceTable(scratch);
  for (Option& option : dialect::JobOptions(scratch.spec, around)) table.push_back(std::move(option));
  return table;
}

int ServeMain(const Words& words) {
  const Words rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  const std::string_view verb = words.empty() ? std::string_view("list") : std::string_view(words.front());
  if (verb == "create") return PrintAnswer(CreateService(rest));
  if (verb == "update") return PrintAnswer(UpdateService(rest));
  if (verb == "apply") return ApplyServices(rest);
  if (verb == "list") return ListServices(rest);
  if (verb == "show") return ShowService(rest);
  if (verb == "logs") return ServiceLogs(rest);
  if (verb == "scale") return PrintAnswer(ScaleService(rest));
  if (verb == "promote") return PrintAnswer(PromoteService(rest));
  if (verb == "rollback") return PrintAnswer(RollBackService(rest));
  if (verb == "delete") return DeleteServices(rest);
  return Fail(InvalidArgument("divvy serve: unknown command '" + words.front() + "'; use " + std::string(kServeUsage)));
}

}  // namespace divvy::cli
