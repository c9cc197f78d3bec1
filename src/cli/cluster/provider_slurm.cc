// divvy provider slurm: Slurm as a provider of nodes. A node is a pilot: a job of Slurm on one node that runs divvy's
// agent until divvy returns the node. The comment of the job is its tag: the cluster and the token of the order.
//
// Options of the provider and of its shapes are arguments of sbatch, such as "--partition=gpu". Those that begin with
// "--divvy-" are for the pilot: --divvy-path=FILE (divvy on Slurm's nodes; default: this program), --divvy-home=FOLDER
// (for the agent's files there; default: $TMPDIR or /tmp) and --divvy-emulate=SPEC (emulated GPUs).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/cluster/provider_calls.h"
#include "platform/os/unique_fd.h"
#include "wire/messages/codec.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kMostOutput = std::size_t{64} << 20;

/// Runs a program of Slurm, found by PATH, and returns what it prints. Its complaints go to standard error.
Result<std::string> RunTool(const std::vector<std::string>& words, const std::string& input = {}) {
  Descriptor file(::memfd_create("input", MFD_CLOEXEC));
  std::array<int, 2> ends{-1, -1};
  if (!file.is_open() || ::pipe2(ends.data(), O_CLOEXEC) != 0)
    return Internal(std::string("no descriptor is left: ") + std::strerror(errno));
  Descriptor ours(ends[0]), theirs(ends[1]);
  if (!input.empty() && ::write(file.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size()))
    return Internal(std::string("cannot pass its input on: ") + std::strerror(errno));
  ::lseek(file.get(), 0, SEEK_SET);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  // The child stays in the process group of this program, so that both are killed together.
  const pid_t pid = ::fork();
  if (pid < 0) return Internal(std::string("cannot start a process: ") + std::strerror(errno));
  if (pid == 0) {
    ::dup2(file.get(), STDIN_FILENO);
    ::dup2(theirs.get(), STDOUT_FILENO);
    ::execvp(pointers.front(), pointers.data());
    ::dprintf(STDERR_FILENO, "cannot run %s: %s\n", pointers.front(), std::strerror(errno));
    ::_exit(127);
  }
  theirs.Reset();
  std::string output;
  std::array<char, 65'536> buffer;
  for (ssize_t size = 0; (size = ::read(ours.get(), buffer.data(), buffer.size())) > 0;)
    output.append(buffer.data(), std::min(static_cast<std::size_t>(size), kMostOutput - output.size()));
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return Internal(words.front() + " failed; its message is above");
}

/// The daemon's program, which calls this one.
std::string OwnProgram() {
  if (const char* given = std::getenv("DIVVY")) return given;
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data()) : "divvy";
}

struct Pilot {
  std::string id;
  std::string token;
  bool is_pending = false;  // It waits in Slurm's queue.
};

/// Returns the cluster's pilot jobs that have not ended, ascending by id. Only jobs of this program's user count,
/// because other users could write the tag into their jobs' comments.
Result<std::vector<Pilot>> ListPilots(const std::string& cluster) {
  DIVVY_TRY(const std::string text,
            RunTool({"squeue", "--noheader", "--all", "--user=" + std::to_string(::geteuid()), "--format=%i %t %k"}));
  std::vector<Pilot> pilots;
  for (const std::string_view line : Split(text, '\n')) {
    const auto words = SplitWords(line);
    if (words.size() == 4 && words[2] == cluster)
      pilots.push_back({std::string(words[0]), std::string(words[3]), words[1] == "PD"});
  }
  std::ranges::sort(pilots, {}, [](const Pilot& pilot) { return std::pair(pilot.id.size(), pilot.id); });
  return pilots;
}

/// Returns the batch script of a pilot job. At its end, it ends all processes that have the agent's folder in their
/// environment, even those that Slurm does not track.
std::string PilotScript(const wire::ProviderOrder& order, const std::string& divvy, const std::string& parent,
                        const std::string& emulate) {
  std::string script = "#!/bin/sh\numask 077\n";
  script += "home=$(mktemp -d " + (parent.empty() ? "\"${TMPDIR:-/tmp}\"" : ShellQuote(parent)) +
            "/divvy-pilot.XXXXXX) || exit 1\n";
  script += R"(ended() {
  trap '' TERM INT
  for try in 1 2 3; do
    for environ in $(grep -lsF "DIVVY_HOME=$home" /proc/[0-9]*/environ); do
      pid=${environ#/proc/}
      kill -KILL "${pid%/environ}" 2>/dev/null
    done
  done
  rm -rf "$home"
  exit 0
}
trap ended TERM INT
cat >"$home/join" <<'JOIN'
)";
  script += order.join + "\nJOIN\n";
  script += "DIVVY_HOME=$home " + ShellQuote(divvy) + " agent --on-demand --join-file \"$home/join\" --name " +
            ShellQuote(order.name) + (emulate.empty() ? "" : " --emulate " + ShellQuote(emulate)) +
            " >\"$home/agent.out\" 2>&1 &\nwait $!\nended\n";
  return script;
}

Result<std::string> CreatePilot(const wire::ProviderOrder& order) {
  if (!order.shape || order.token.empty() || order.name.empty() || order.join.empty())
    return InvalidArgument("the order has no token, name, join line or shape");
  const auto first_of = [&order](const std::vector<Pilot>& pilots) {
    const auto found = std::ranges::find(pilots, order.token, &Pilot::token);
    return found == pilots.end() ? std::string() : found->id;
  };
  DIVVY_TRY(std::vector<Pilot> pilots, ListPilots(order.cluster));
  if (std::string known = first_of(pilots); !known.empty()) return known;
  const wire::ProviderOrderShape& shape = *order.shape;
  std::string divvy = OwnProgram(), parent, emulate;
  std::vector<std::string> words = {"sbatch",
                                    "--parsable",
                                    "--job-name=" + order.name,
                                    "--comment=" + order.cluster + " " + order.token,
                                    "--nodes=1",
                                    "--ntasks=1",
                                    "--no-requeue",
                                    "--output=/dev/null",
                                    "--cpus-per-task=" + std::to_string(shape.cpus),
                                    "--mem=" + std::to_string(shape.memory_bytes >> 20) + "M"};
  if (shape.gpus > 0) words.push_back("--gres=gpu:" + std::to_string(shape.gpus));
  // Whole minutes. 0 would mean no limit.
  if (shape.max_lifetime_s > 0)
    words.push_back("--time=" +
                    std::to_string(std::max<std::int64_t>(1, static_cast<std::int64_t>(shape.max_lifetime_s / 60))));
  for (const std::vector<std::string>* options : {&order.options, &shape.options}) {
    for (const std::string& option : *options) {
      const std::size_t equals = std::min(option.find('='), option.size());
      const std::string name = option.substr(0, equals), value = option.substr(std::min(equals + 1, option.size()));
      if (name == "--divvy-path") divvy = value;
      else if (name == "--divvy-home") parent = value;
      else if (name == "--divvy-emulate") emulate = value;
      else if (name.starts_with("--divvy-"))
        return InvalidArgument("unknown option " + name + ": expected --divvy-path, --divvy-home or --divvy-emulate");
      else if (!option.starts_with("-"))
        return InvalidArgument("option '" + option + "' is no option of sbatch; write it like \"--partition=gpu\"");
      else words.push_back(option);
    }
  }
  DIVVY_TRY(const std::string printed, RunTool(words, PilotScript(order, divvy, parent, emulate)));
  // A call that was killed before may have submitted a pilot, too: the first one counts, and the others are cancelled
  // as nodes that nobody requested.
  DIVVY_TRY(pilots, ListPilots(order.cluster));
  if (std::string known = first_of(pilots); !known.empty()) return known;
  return std::string(Trim(Split(printed, ';').front()));
}

Status DestroyPilot(const wire::ProviderOrder& order) {
  DIVVY_TRY(const std::vector<Pilot> pilots, ListPilots(order.cluster));
  std::vector<std::string> words = {"scancel"};
  for (const Pilot& pilot : pilots) {
    if (order.instance.empty() ? pilot.token == order.token : pilot.id == order.instance) words.push_back(pilot.id);
  }
  if (words.size() == 1) return {};
  // First signal the batch script, which ends processes that Slurm does not track; then cancel the job.
  std::vector<std::string> first = {"scancel", "--batch", "--signal=TERM"};
  first.insert(first.end(), words.begin() + 1, words.end());
  static_cast<void>(RunTool(first));
  DIVVY_TRY(const std::string printed, RunTool(words));
  static_cast<void>(printed);
  return {};
}

}  // namespace

Result<std::string> CallSlurm(const std::string& verb, const wire::ProviderOrder& order) {
  if (verb == "create") {
    DIVVY_TRY(const std::string instance, CreatePilot(order));
    return wire::Encode(wire::ProviderCreated{instance});
  }
  if (verb == "list") {
    DIVVY_TRY(const std::vector<Pilot> pilots, ListPilots(order.cluster));
    wire::ProviderList list;
    for (const Pilot& pilot : pilots)
      list.nodes.push_back({.cluster = order.cluster,
                            .token = pilot.token,
                            .instance = pilot.id,
                            .state = pilot.is_pending ? "pending" : ""});
    return wire::Encode(list);
  }
  DIVVY_CHECK(DestroyPilot(order));
  return std::string("{}");
}

}  // namespace divvy::cli
