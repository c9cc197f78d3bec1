// divvy up, down, status: start, stop and inspect the daemon.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/text.h"
#include "cli/client/answer_options.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/progress_indicator.h"
#include "cli/client/shown_answer.h"
#include "cli/client/start.h"
#include "cli/client/table.h"
#include "dialect/options/quantities.h"
#include "platform/os/runtime_paths.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli {
namespace {

using dialect::Option;

struct UpFlags {
  std::string emulate;
  std::string gpus;
  std::string listen;
  bool is_foreground = false;
  bool is_quiet = false;
};

std::vector<Option> UpTable(UpFlags& flags) {
  const auto text = [](std::string& into) {
    return [&into](std::string_view value) -> Status {
      if (value.empty()) return InvalidArgument("the value is empty");
      into = value;
      return {};
    };
  };
  std::vector<Option> table;
  table.push_back(Option::Value("emulate", "SPEC|FILE",
                                "Use emulated GPUs instead of real ones: 8xH100-80GB, or a description file",
                                text(flags.emulate)));
  table.push_back(Option::Value(
      "gpus", "LIST", "Use only these GPUs for new jobs: 0-3 or 0,2 (like divvy gpus restrict)", text(flags.gpus)));
  table.push_back(Option::Value("listen", "HOST:PORT", "Also listen for other machines, over TLS: 0.0.0.0:7433",
                                text(flags.listen)));
  table.push_back(Option::Flag("controller", "Same as --listen 0.0.0.0:7433", [&flags](std::string_view) -> Status {
    flags.listen = "0.0.0.0:7433";
    return {};
  }));
  table.push_back(Option::Flag("foreground", 'f', "Stay in the foreground and log to standard error (for systemd)",
                               dialect::Sets(flags.is_foreground)));
  table.push_back(QuietOption(flags.is_quiet));
  return table;
}

/// "4: 3 up, 1 drained"; empty for a single-node server.
std::string MachinesText(const std::vector<wire::NodeView>& nodes) {
  if (nodes.size() < 2) return "";
  std::map<std::string, int> counts;
  for (const wire::NodeView& node : nodes) ++counts[node.state];
  std::vector<std::string> parts;
  if (const auto up = counts.extract("up")) parts.push_back(std::to_string(up.mapped()) + " up");
  for (const auto& [state, count] : counts) parts.push_back(std::to_string(count) + " " + state);
  return std::to_string(nodes.size()) + ": " + Join(parts, ", ");
}

std::string StatusLine(const wire::StatusView& status, const std::vector<wire::NodeView>& nodes = {}) {
  std::string out = "divvy " + status.version + " serves at " + status.socket + " (pid " + std::to_string(status.pid) +
                    ", up " + dialect::FormatDuration(Duration(static_cast<std::int64_t>(status.uptime_s * 1e9))) +
                    ")\n";
  // A standby controller does not know the GPUs and jobs.
  if (status.policy.empty()) {
    if (!status.listens.empty()) out += "listens    " + status.listens + " (TLS, with tokens)\n";
    return out + "standby    " + status.trouble + "\n";
  }
  // The totals count the whole cluster, but the source describes the controller's own node.
  const bool has_others = nodes.size() > 1;
  out += "GPUs       " + std::to_string(status.gpus_free) + " of " + std::to_string(status.gpus) + " free" +
         (has_others ? " on " + std::to_string(nodes.size()) + " nodes" : "") +
         (status.gpus_borrowed > 0 ? " (" + std::to_string(status.gpus_borrowed) + " of them borrowed by GPU fractions)"
                                   : "") +
         (status.gpus_reserved > 0 ? ", " + std::to_string(status.gpus_reserved) + " reserved; " : "; ") +
         (has_others ? "on the controller's: " : "") + status.gpu_source + "\n";
  out += "jobs       " + std::to_string(status.jobs_running) + " running, " + std::to_string(status.jobs_queued) +
         " queued, " + std::to_string(status.jobs_held) + " held, " + std::to_string(status.jobs_total) + " ever\n";
  if (const std::string machines = MachinesText(nodes); !machines.empty()) out += "nodes      " + machines + "\n";
  out += "policy     " + status.policy + "\n";
  if (!status.time_sharing.empty() && status.time_sharing != "off") out += "sharing    " + status.time_sharing + "\n";
  out += "isolation  " + status.isolation + "\n";
  if (!status.listens.empty()) {
    out += "listens    " + status.listens + " (TLS, with tokens)\n";
    if (status.gpus == 0)
      out += "nodes      none with GPUs yet; divvy token create --node prints the token to join with\n";
  }
  if (!status.trouble.empty()) out += Paint(Colour::kRed, "TROUBLE    " + status.trouble) + "\n";
  for (const std::string& warning : status.warnings) out += Paint(Colour::kYellow, "warning    " + warning) + "\n";
  return out;
}

/// The status of a daemon that has just started. One of several controllers that begins to lead opens its socket again,
/// and is unreachable for a moment.
Result<wire::StatusView> FirstStatus(const std::string& socket) {
  constexpr auto kAtMost = std::chrono::seconds(10);
  constexpr auto kPause = std::chrono::milliseconds(20);
  const auto end = std::chrono::steady_clock::now() + kAtMost;
  while (true) {
    auto api = Api::Connect(socket);
    auto status = api ? api->Status() : Result<wire::StatusView>(api.error());
    const bool is_unreachable = !status && status.error().code == ErrorCode::kUnreachable;
    if (!is_unreachable || std::chrono::steady_clock::now() >= end) return status;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::vector<Option> UpOptions() {
  static UpFlags scratch;
  return UpTable(scratch);
}

int UpMain(const Words& words) {
  UpFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(UpTable(flags), words));
  if (!parsed.positional.empty())
    return Fail(InvalidArgument("divvy up takes no argument '" + parsed.positional.front() + "'"));
  const RuntimePaths places = FindPlaces();
  if (auto running = Api::Connect(places.socket)) {
    const auto status = running->Status();
    // A killed daemon may accept connections for another moment.
    if (status || status.error().code != ErrorCode::kUnreachable) {
      // The launcher may have been killed while the daemon kept running.
      if (places.is_machine_wide && ::geteuid() == 0) static_cast<void>(StartLauncher());
      const std::string who =
          status ? "pid " + std::to_string(status->pid) + " of " + status->user : std::string("another daemon");
      return Fail({ErrorCode::kAlreadyExists, "a daemon already serves at " + places.socket + " (" + who +
                                                  "); divvy down stops it, and its jobs keep running"});
    }
  }
  if (places.is_machine_wide) {
    if (const Status ready = LeaveRootToLauncher("daemon", {.emulate = flags.emulate}); !ready)
      return Fail(ready.error());
  }
  std::vector<std::string> arguments = {"divvy", "internal-daemon"};
  if (!flags.emulate.empty()) arguments.insert(arguments.end(), {"--emulate", flags.emulate});
  if (!flags.gpus.empty()) arguments.insert(arguments.end(), {"--gpus", flags.gpus});
  if (!flags.listen.empty()) arguments.insert(arguments.end(), {"--listen", flags.listen});
  if (flags.is_foreground) return StartInPlace(std::move(arguments));
  if (const Status started = StartDetached(std::move(arguments), "the daemon"); !started) return Fail(started.error());
  if (flags.is_quiet) return 0;
  if (const char* other = std::getenv("DIVVY_CONTROLLER"); other != nullptr && *other != '\0')
    Note("DIVVY_CONTROLLER is set: other commands go to that controller, not to this daemon");
  DIVVY_TRY_OR_FAIL(const auto status, FirstStatus(places.socket));
  std::fputs(StatusLine(status).c_str(), stdout);
  return 0;
}

std::vector<Option> DownOptions() {
  static bool is_quiet = false;
  return {QuietOption(is_quiet)};
}

int DownMain(const Words& words) {
  bool is_quiet = false;
  const std::vector<Option> table = {QuietOption(is_quiet)};
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(table, words));
  if (!parsed.positional.empty())
    return Fail(InvalidArgument("divvy down takes no argument '" + parsed.positional.front() +
                                "' (to end jobs, use divvy cancel)"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto status, api.Status());
  std::optional<ProgressIndicator> progress(std::in_place, "stopping the daemon");
  // A daemon that cannot reach its database ends without an answer.
  if (const auto down = api.Shutdown(); !down && down.error().code != ErrorCode::kUnreachable) {
    progress.reset();
    return Fail(down.error());
  }
  // Wait for the end of the process, so that the next divvy up does not find it running.
  if (!api.is_remote()) AwaitEnd(static_cast<pid_t>(status.pid));
  progress.reset();
  if (is_quiet) return 0;
  if (status.jobs_running > 0) {
    const char* const fate = status.jobs_running == 1 ? "keeps running, and the next daemon takes it over"
                                                      : "keep running, and the next daemon takes them over";
    std::printf("The daemon has stopped. %s %s.\n", Plural(status.jobs_running, "job").c_str(), fate);
  } else {
    std::printf("The daemon has stopped.\n");
  }
  return 0;
}

std::vector<Option> StatusOptions() {
  static ListingOptions scratch;
  return AnswerOptionTable(scratch);
}

int StatusMain(const Words& words) {
  ListingOptions listing;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(AnswerOptionTable(listing), words));
  if (!parsed.positional.empty())
    return Fail(InvalidArgument("divvy status takes no argument '" + parsed.positional.front() +
                                "' (to see a job, use divvy show)"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(const wire::StatusView status, api.Status());
    if (listing.json) return wire::Encode(status) + "\n";
    DIVVY_TRY(const std::string nodes, api.Raw("GET", "/v1/nodes", ""));
    DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::NodeView>>(nodes));
    return StatusLine(status, views);
  });
}

}  // namespace divvy::cli
