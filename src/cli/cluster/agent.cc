// divvy agent: makes this machine a node of a controller on another one.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/client/start.h"
#include "platform/os/runtime_paths.h"
#include "platform/users/secret_file.h"
#include "wire/http/token_line.h"

namespace divvy::cli {
namespace {

using dialect::Option;

constexpr std::size_t kMostState = std::size_t{64} << 10;

struct AgentFlags {
  std::string join;
  std::string join_file;
  std::string name;
  std::string emulate;
  std::vector<std::string> labels;
  bool is_on_demand = false;
  bool is_detached = false;
  bool is_stop = false;
  bool is_quiet = false;
};

std::vector<Option> AgentTable(AgentFlags& flags) {
  const auto text = [](std::string& into) {
    return [&into](std::string_view value) -> Status {
      if (value.empty()) return InvalidArgument("the value is empty");
      into = value;
      return {};
    };
  };
  std::vector<Option> table;
  table.push_back(Option::Value("join", 'j', "LINE|-",
                                "Token line that divvy token create --node printed; - reads it from standard input",
                                text(flags.join)));
  table.push_back(Option::Value("join-file", "FILE", "File that contains the token line", text(flags.join_file)));
  table.push_back(Option::Value("name", 'n', "NAME", "Node name (default: the host name)", text(flags.name)));
  table.push_back(Option::Value("label", 'l', "NAME=VALUE",
                                "Label of the node, such as rack=r7 or block=b2; repeatable",
                                [&flags](std::string_view value) -> Status {
                                  const std::size_t equals = value.find('=');
                                  if (equals == 0 || equals == std::string_view::npos)
                                    return InvalidArgument("a label must have the form NAME=VALUE");
                                  flags.labels.emplace_back(value);
                                  return {};
                                }));
  table.push_back(Option::Value("emulate", "SPEC|FILE",
                                "Use emulated GPUs instead of real ones: 8xH100-80GB, or a description file",
                                text(flags.emulate)));
  table.push_back(Option::Flag("on-demand",
                               "The machine may be taken away: a failed job is reported after 2 seconds, and not at "
                               "all if the agent is stopped before, so that the job runs again on another node",
                               dialect::Sets(flags.is_on_demand)));
  table.push_back(Option::Flag("detach", 'd', "Return when the node has joined; the agent stays in the background",
                               dialect::Sets(flags.is_detached)));
  table.push_back(Option::Flag("stop",
                               "Stop the agent on this machine; its jobs keep running, and the next agent reports them",
                               dialect::Sets(flags.is_stop)));
  table.push_back(QuietOption(flags.is_quiet));
  return table;
}

/// nullopt if no token line was given.
Result<std::optional<TokenLine>> JoinLine(const AgentFlags& flags) {
  if (!flags.join.empty() && !flags.join_file.empty())
    return InvalidArgument("--join and --join-file cannot be combined; give only one of them");
  std::string text = flags.join;
  if (flags.join == "-") {
    if (::isatty(STDIN_FILENO) == 1) std::fprintf(stderr, "Token line printed by divvy token create --node: ");
    text.clear();
    std::getline(std::cin, text);
  } else if (!flags.join_file.empty()) {
    std::FILE* file = std::fopen(flags.join_file.c_str(), "re");
    if (file == nullptr) return NotFound("cannot read " + flags.join_file + ": " + std::strerror(errno));
    char line[4096] = "";
    static_cast<void>(!std::fgets(line, sizeof line, file));
    std::fclose(file);
    text = line;
  } else if (flags.join.empty()) {
    return std::optional<TokenLine>();
  }
  DIVVY_TRY(TokenLine line, ParseTokenLine(text));
  return std::optional(std::move(line));
}

/// Returns a descriptor from which the agent reads the token line. On its command line, every user could read it.
Result<int> HandOver(const std::string& line) {
  int ends[2];
  if (::pipe(ends) != 0) return Internal("cannot make a pipe: " + std::string(std::strerror(errno)));
  // A line fits into the pipe's buffer.
  const bool is_written = ::write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size());
  ::close(ends[1]);
  if (!is_written) return Internal("cannot write to a pipe");
  return ends[0];
}

/// Ends the agent that holds the lock, and waits until it has released it.
int StopAgent(bool is_quiet) {
  const std::string path = FindPlaces().state + "/agent/agent.lock";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno != ENOENT) return Fail(PermissionDenied("cannot open " + path + ": " + std::strerror(errno)));
  if (fd < 0 || ::flock(fd, LOCK_SH | LOCK_NB) == 0) {
    if (fd >= 0) ::close(fd);
    return Fail(FailedPrecondition("no agent runs here (" + path.substr(0, path.rfind('/')) + ")"));
  }
  // The file's owner controls its content and may write any pid into it. So only a process of that owner may be ended.
  struct stat about = {};
  if (::geteuid() == 0 && (::fstat(fd, &about) != 0 || ::setresuid(about.st_uid, about.st_uid, about.st_uid) != 0))
    return Fail(Internal("cannot become the owner of " + path + ": " + std::strerror(errno)));
  char text[32] = "";
  static_cast<void>(!::pread(fd, text, sizeof text - 1, 0));
  const auto pid = static_cast<pid_t>(std::strtol(text, nullptr, 10));
  if (pid <= 1) return Fail(Internal(path + " contains no process id"));
  if (::kill(pid, SIGTERM) != 0)
    return Fail(PermissionDenied("cannot stop the agent (pid " + std::to_string(pid) + "): " + std::strerror(errno)));
  for (int tries = 0; ::flock(fd, LOCK_SH | LOCK_NB) != 0; ++tries) {
    if (tries == 1'000) return Fail(Internal("the agent (pid " + std::to_string(pid) + ") did not stop within 10 s"));
    ::usleep(10'000);
  }
  ::close(fd);
  if (!is_quiet) std::printf("The agent has stopped; divvy agent --detach starts it again.\n");
  return 0;
}

/// The content of the agent's state file (daemon/agent/agent_state.h). Empty if there is none that can be trusted.
std::string KeptState(const RuntimePaths& places, RootTakes root_takes = RootTakes::kAll) {
  // Root reads it from another user's directory, so only a small regular file is accepted.
  return ReadSecret(places.state + "/agent/agent.state", kMostState, Readers::kNobody, root_takes).value_or("");
}

/// The value of `key` in the state file's text; empty if there is no such line.
std::string ValueIn(std::string_view state, std::string_view key) {
  for (const std::string_view line : Split(state, '\n')) {
    if (line.starts_with(std::string(key) + " ")) return std::string(line.substr(key.size() + 1));
  }
  return "";
}

/// Changes to the agent's user, because the agent does not run as root. Its launcher does, and gets the settings that
/// only root may give.
Status LeaveRoot(const RuntimePaths& places, const AgentFlags& flags, const std::optional<TokenLine>& line) {
  const std::string kept = KeptState(places);
  LauncherWishes wishes;
  wishes.emulate = flags.emulate;
  // The state file is trusted about emulated GPUs only if root owns it. Then an agent of an earlier release, which ran
  // as root, has written it.
  if (flags.emulate.empty() && ::access(places.emulation.c_str(), F_OK) != 0)
    wishes.emulate = ValueIn(KeptState(places, RootTakes::kOwn), "emulate");
  const std::string kept_name = ValueIn(kept, "name");
  wishes.emulate_as = !flags.name.empty() ? flags.name : !kept_name.empty() ? kept_name : HostName();
  const std::string node_of = ValueIn(kept, "fingerprint");
  // The agent refuses to join another controller than its present one.
  if (line && (node_of.empty() || node_of == line->fingerprint)) wishes.controllers_key = line->launcher_key;
  const auto key_before = ReadSecret(places.controllers_key, kMostState, Readers::kAll);
  if (!wishes.controllers_key.empty() && key_before && Trim(*key_before) != wishes.controllers_key) {
    std::fprintf(stderr,
                 "divvy: note: the launcher key in this token replaces the one stored here; if jobs of users then fail "
                 "to start on this node, the token was altered on its way\n");
  }
  const bool has_its_key = ::access(places.controllers_key.c_str(), F_OK) == 0 && line && node_of == line->fingerprint;
  if (line && line->launcher_key.empty() && !has_its_key) {
    return FailedPrecondition(
        "this token has no launcher key, so this node could not run jobs of users. The line is truncated, or was not "
        "created " +
        std::string("by root on the controller's node at ") + ToString(line->controller) +
        "; create it there: sudo divvy token create --node. To run an agent as root without a launcher, set "
        "DIVVY_HOME to a directory");
  }
  return LeaveRootToLauncher("agent", wishes);
}

/// Reports this machine's node name and controller, from what the agent has just stored.
void SayUp(const RuntimePaths& places) {
  const std::string kept = KeptState(places);
  const std::string node = ValueIn(kept, "name"), controller = ValueIn(kept, "controller");
  std::printf("The agent is running: this machine is %s of %s; its log is %s/agent/agent.log.\n",
              node.empty() ? "a node" : ("node " + node).c_str(),
              controller.empty() ? "its controller" : ("the controller at " + controller).c_str(),
              places.state.c_str());
}

}  // namespace

std::vector<Option> AgentOptions() {
  static AgentFlags scratch;
  return AgentTable(scratch);
}

int AgentMain(const Words& words) {
  AgentFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(AgentTable(flags), words));
  if (!parsed.positional.empty()) {
    return Fail(InvalidArgument("divvy agent takes no argument '" + parsed.positional.front() +
                                "'; give a token line with --join"));
  }
  if (flags.is_stop) return StopAgent(flags.is_quiet);
  DIVVY_TRY_OR_FAIL(const auto line, JoinLine(flags));
  const RuntimePaths places = FindPlaces();
  if (places.is_machine_wide) {
    if (const Status ready = LeaveRoot(places, flags, line); !ready) return Fail(ready.error());
  }
  std::vector<std::string> arguments = {"divvy", "internal-agent"};
  if (line) {
    const auto fd = HandOver(ToString(*line));
    if (!fd) return Fail(fd.error());
    arguments.insert(arguments.end(), {"--join-fd", std::to_string(*fd)});
  }
  if (!flags.name.empty()) arguments.insert(arguments.end(), {"--name", flags.name});
  if (!flags.emulate.empty()) arguments.insert(arguments.end(), {"--emulate", flags.emulate});
  if (flags.is_on_demand) arguments.emplace_back("--on-demand");
  for (const std::string& label : flags.labels) arguments.insert(arguments.end(), {"--label", label});
  if (!flags.is_detached) return StartInPlace(std::move(arguments));
  if (const Status started = StartDetached(std::move(arguments), "the agent"); !started) return Fail(started.error());
  if (!flags.is_quiet) SayUp(places);
  return 0;
}

}  // namespace divvy::cli
