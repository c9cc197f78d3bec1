// divvy agent: this machine as a node of a controller on another one.
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
#include <string>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "platform/places.h"
#include "wire/token_line.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

struct AgentFlags {
  std::string join;
  std::string join_file;
  std::string name;
  std::string emulate;
  std::vector<std::string> labels;
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
  const auto set = [](bool& flag) {
    return [&flag](std::string_view) -> Status {
      flag = true;
      return {};
    };
  };
  std::vector<Option> table;
  table.push_back({"join",
                   'j',
                   Takes::kValue,
                   "LINE|-",
                   "The line that divvy token create --node printed; -: from standard input",
                   text(flags.join),
                   {},
                   false});
  table.push_back({"join-file", 0, Takes::kValue, "FILE", "A file with that line", text(flags.join_file), {}, false});
  table.push_back({"name",
                   'n',
                   Takes::kValue,
                   "NAME",
                   "What the node is called; as the machine unless given",
                   text(flags.name),
                   {},
                   false});
  table.push_back({"label",
                   'l',
                   Takes::kValue,
                   "NAME=VALUE",
                   "Something to know the machine by: rack=r7, block=b2",
                   [&flags](std::string_view value) -> Status {
                     const std::size_t equals = value.find('=');
                     if (equals == 0 || equals == std::string_view::npos)
                       return InvalidArgument("a label is NAME=VALUE");
                     flags.labels.emplace_back(value);
                     return {};
                   },
                   {},
                   false});
  table.push_back({"emulate",
                   0,
                   Takes::kValue,
                   "SPEC|FILE",
                   "Stand-in GPUs instead of real ones: 8xH100-80GB, or a description file",
                   text(flags.emulate),
                   {},
                   false});
  table.push_back({"detach",
                   'd',
                   Takes::kNothing,
                   "",
                   "Return when the node is in, and go on in the background",
                   set(flags.is_detached),
                   {},
                   false});
  table.push_back({"stop",
                   0,
                   Takes::kNothing,
                   "",
                   "End the agent of this machine; its jobs go on until the next one tells of them",
                   set(flags.is_stop),
                   {},
                   false});
  table.push_back(QuietOption(flags.is_quiet));
  return table;
}

/// Empty: none was given.
Result<std::string> JoinLine(const AgentFlags& flags) {
  if (!flags.join.empty() && !flags.join_file.empty())
    return InvalidArgument("--join and --join-file say the same; one of them is enough");
  std::string text = flags.join;
  if (flags.join == "-") {
    if (::isatty(STDIN_FILENO) == 1) std::fprintf(stderr, "The line that divvy token create --node printed: ");
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
    return std::string();
  }
  DIVVY_TRY(const TokenLine line, ParseTokenLine(text));
  return ToString(line);
}

/// A descriptor from which the agent reads it: on its command line everybody could.
Result<int> HandOver(const std::string& line) {
  int ends[2];
  if (::pipe(ends) != 0) return Internal("cannot make a pipe: " + std::string(std::strerror(errno)));
  // A line fits into a pipe.
  const bool is_written = ::write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size());
  ::close(ends[1]);
  if (!is_written) return Internal("cannot write to a pipe");
  return ends[0];
}

/// Ends the agent that holds the lock, and waits until it has let go of it.
int StopAgent(bool is_quiet) {
  const std::string path = FindPlaces().state + "/agent/agent.lock";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno != ENOENT) return Fail(PermissionDenied("cannot open " + path + ": " + std::strerror(errno)));
  if (fd < 0 || ::flock(fd, LOCK_SH | LOCK_NB) == 0) {
    if (fd >= 0) ::close(fd);
    return Fail(FailedPrecondition("no agent runs here (" + path.substr(0, path.rfind('/')) + ")"));
  }
  struct stat about = {};
  if (::geteuid() == 0 && (::fstat(fd, &about) != 0 || about.st_uid != 0))
    return Fail(
        PermissionDenied(path + " is not root's, so the process that it names may be any; end the agent by its pid and "
                                "remove the file"));
  char text[32] = "";
  static_cast<void>(!::pread(fd, text, sizeof text - 1, 0));
  const auto pid = static_cast<pid_t>(std::strtol(text, nullptr, 10));
  if (pid <= 1) return Fail(Internal(path + " names no process"));
  if (::kill(pid, SIGTERM) != 0)
    return Fail(PermissionDenied("cannot end the agent (pid " + std::to_string(pid) + "): " + std::strerror(errno)));
  for (int tries = 0; ::flock(fd, LOCK_SH | LOCK_NB) != 0; ++tries) {
    if (tries == 1'000)
      return Fail(Internal("the agent (pid " + std::to_string(pid) + ") was told to end and has not within 10 s"));
    ::usleep(10'000);
  }
  ::close(fd);
  if (!is_quiet) std::printf("The agent has ended; divvy agent --detach starts it again.\n");
  return 0;
}

/// As which node of whom, from what the agent has just kept.
void SayUp(const std::string& folder) {
  std::string node = "a node", controller = "its controller";
  const auto kept = CallerSurroundings().read_file(folder + "/agent.state");
  const std::string text = kept ? *kept : "";
  for (const std::string_view line : Split(text, '\n')) {
    if (line.starts_with("name ")) node = "node " + std::string(line.substr(5));
    if (line.starts_with("controller ")) controller = "the controller at " + std::string(line.substr(11));
  }
  std::printf("The agent is up: this machine is %s of %s; its log is %s/agent.log.\n", node.c_str(), controller.c_str(),
              folder.c_str());
}

}  // namespace

std::vector<Option> AgentOptions() {
  static AgentFlags scratch;
  return AgentTable(scratch);
}

int AgentMain(const Words& words) {
  AgentFlags flags;
  const auto parsed = dialect::ParseOptions(AgentTable(flags), words);
  if (!parsed) return Fail(parsed.error());
  if (!parsed->positional.empty()) {
    return Fail(InvalidArgument("divvy agent takes no word like '" + parsed->positional.front() +
                                "'; a token line goes behind --join"));
  }
  if (flags.is_stop) return StopAgent(flags.is_quiet);
  const auto line = JoinLine(flags);
  if (!line) return Fail(line.error());
  std::vector<std::string> arguments = {"divvy", "internal-agent"};
  if (!line->empty()) {
    const auto fd = HandOver(*line);
    if (!fd) return Fail(fd.error());
    arguments.insert(arguments.end(), {"--join-fd", std::to_string(*fd)});
  }
  if (!flags.name.empty()) arguments.insert(arguments.end(), {"--name", flags.name});
  if (!flags.emulate.empty()) arguments.insert(arguments.end(), {"--emulate", flags.emulate});
  for (const std::string& label : flags.labels) arguments.insert(arguments.end(), {"--label", label});
  if (!flags.is_detached) return StartInPlace(std::move(arguments));
  if (const Status started = StartDetached(std::move(arguments), "the agent"); !started) return Fail(started.error());
  if (!flags.is_quiet) SayUp(FindPlaces().state + "/agent");
  return 0;
}

}  // namespace divvy::cli
