#include "cli/shims/slurm/slurm_submit.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/client/shown_answer.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/shims/slurm_look/slurm_refusals.h"
#include "cli/shims/slurm_look/slurm_team_scene.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "dialect/options/job_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"
#include "dialect/slurm/slurm_environment.h"
#include "wire/messages/codec.h"

namespace divvy::cli::slurm {
namespace {

namespace options = divvy::dialect::slurm;

constexpr std::string_view kWrapped = "--wrap";
constexpr std::string_view kStdin = "stdin";

struct Script {
  std::string text;
  std::string path;  // For messages.
  std::string name;  // The job's name, unless given.
};

Status CheckScript(const Script& script) {
  if (Trim(script.text).empty()) return InvalidArgument("Batch script is empty!");
  if (!script.text.starts_with("#!")) {
    return InvalidArgument(
        "This does not look like a batch script.  The first line must start with #! followed by the path to an "
        "interpreter, for instance: #!/bin/sh");
  }
  if (script.text.find("\r\n") != std::string::npos) {
    return InvalidArgument("Batch script contains DOS line breaks (\\r\\n); turn them into \\n: sed -i 's/\\r$//' " +
                           script.path);
  }
  if (script.text.find('\0') != std::string::npos)
    return InvalidArgument("The Slurm controller does not allow scripts that contain a NULL character '\\0'.");
  return {};
}

/// Returns the value of an option that applies to the whole job, no matter with which component it was given.
std::optional<std::string> ClientValue(const JobSpec& spec, std::string_view name) {
  if (auto value = options::Value(spec, name)) return value;
  for (const Component& component : spec.request.others) {
    if (const auto at = component.labels.find(options::LabelOf(name)); at != component.labels.end()) return at->second;
  }
  return std::nullopt;
}

Result<Script> FindScript(const JobSpec& probe, const dialect::Parsed& parsed, const dialect::ParseContext& around,
                          const std::function<Result<std::string>()>& read_stdin) {
  if (const auto wrapped = ClientValue(probe, "client.wrap")) {
    if (!parsed.positional.empty()) return InvalidArgument("Script arguments not permitted with --wrap option");
    return Script{"#!/bin/sh\n# Made by sbatch --wrap.\n\n" + *wrapped + "\n", std::string(kWrapped), "wrap"};
  }
  if (parsed.positional.empty() || parsed.positional.front() == "-") {
    DIVVY_TRY(std::string text, read_stdin());
    return Script{std::move(text), std::string(kStdin), "sbatch"};
  }
  const std::string& path = parsed.positional.front();
  auto text = around.read_file(path);
  if (!text) return InvalidArgument("Unable to open file " + path);
  return Script{*std::move(text), path, path.substr(path.find_last_of('/') + 1)};
}

}  // namespace

bool TakeClientFlag(JobSpec& spec, std::string_view name) {
  const std::string label = options::LabelOf("client." + std::string(name));
  std::size_t taken = spec.labels.erase(label);
  for (Component& component : spec.request.others) taken += component.labels.erase(label);
  return taken > 0;
}

int TakeVerbosity(JobSpec& spec, const char* variable) {
  const char* value = std::getenv(variable);
  const auto around = value == nullptr ? std::nullopt : ParseInteger(value);
  const auto times = options::Number(spec, "client.verbose").value_or(around.value_or(0));
  TakeClientFlag(spec, "verbose");
  return static_cast<int>(std::clamp<std::int64_t>(times, 0, 100));
}

void PrintReadOptions(std::string_view program, const JobSpec& spec, int verbosity) {
  if (verbosity < 2) return;
  const std::string name(program);
  const auto line = [&](std::string_view option, const std::string& value) {
    if (!value.empty())
      std::fprintf(stderr, "%s: %-19s : %s\n", name.c_str(), std::string(option).c_str(), value.c_str());
  };
  std::fprintf(stderr, "%s: debug: %s\n%s: defined options\n", name.c_str(), dialect::Summarise(spec).c_str(),
               name.c_str());
  line("account", spec.account);
  line("partition", spec.pool);
  if (spec.time_limit > Duration(0)) line("time", LongElapsed(std::chrono::duration<double>(spec.time_limit).count()));
  line("verbose", std::to_string(verbosity));
  constexpr std::string_view kPrefix = "slurm.";
  for (const auto& [label, value] : spec.labels) {
    if (label.starts_with(kPrefix)) line(std::string_view(label).substr(kPrefix.size()), value);
  }
}

Result<BatchRequest> ReadBatchRequest(const std::vector<std::string>& words, const dialect::ParseContext& around,
                                      const std::function<Result<std::string>()>& read_stdin) {
  // First parse to find the script's name. The words are parsed again after the script's own lines.
  JobSpec probe;
  DIVVY_TRY(dialect::Parsed parsed,
            dialect::ReadSlurmWords(dialect::SbatchOptions(probe, around), words, around, probe));
  parsed.positional.insert(parsed.positional.end(), parsed.after_dashes.begin(), parsed.after_dashes.end());
  DIVVY_TRY(const Script script, FindScript(probe, parsed, around, read_stdin));
  DIVVY_CHECK(CheckScript(script));

  BatchRequest request;
  JobSpec& spec = request.spec;
  const bool is_file = script.path != kWrapped && script.path != kStdin && !script.path.starts_with('/');
  options::Keep(spec, "script", (is_file ? around.directory + "/" : "") + script.path);
  const dialect::SbatchCall call = {words, script.name};
  DIVVY_CHECK(dialect::ReadScript(script.text, script.path, around, spec, &call));
  if (parsed.positional.size() > 1) spec.arguments.assign(parsed.positional.begin() + 1, parsed.positional.end());
  if (spec.directory.empty()) spec.directory = around.directory;
  options::Keep(spec, "door", "sbatch");
  request.waits = TakeClientFlag(spec, "wait");
  request.is_parsable = TakeClientFlag(spec, "parsable");
  request.is_test = TakeClientFlag(spec, "test-only");
  request.is_quiet = TakeClientFlag(spec, "quiet");
  request.verbosity = TakeVerbosity(spec, "SBATCH_DEBUG");
  TakeClientFlag(spec, "wrap");
  return request;
}

namespace {

bool NamesWhole(const std::string& partitions) {
  const std::vector<std::string_view> names = Split(partitions, ',');
  return std::ranges::find(names, dialect::kSlurmPartition) != names.end();
}

/// Drops the partition "main", which contains all nodes, because divvy needs no pool for it. Keeps it if a pool has
/// that name, or if another pool is the default.
Status LeaveWholePartition(JobSpec& spec) {
  std::vector<std::string*> named = {&spec.pool};
  for (Component& component : spec.request.others) named.push_back(&component.pool);
  std::erase_if(named, [](const std::string* partitions) { return !NamesWhole(*partitions); });
  if (named.empty()) return {};
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/pools", ""));
  DIVVY_TRY(const std::vector<wire::PoolView> pools, DecodeShown<std::vector<wire::PoolView>>(text));
  const auto is_another = [](const wire::PoolView& pool) {
    return pool.is_default || pool.name == dialect::kSlurmPartition;
  };
  if (std::ranges::any_of(pools, is_another)) return {};
  for (std::string* partitions : named) partitions->clear();
  return {};
}

/// As in Slurm, account names are in lower case, unless a team has the name as written.
Status LowerAccount(JobSpec& spec) {
  std::string lower = ToLower(spec.account);
  if (lower == spec.account) return {};
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const wire::TeamsView teams, FetchTeams(api));
  const bool is_team = std::ranges::any_of(teams.teams, [&](const auto& team) { return team.name == spec.account; });
  if (!is_team) spec.account = std::move(lower);
  return {};
}

/// Refuses a --tmp that is larger than the file system of /tmp on a server that is the caller's machine. The space on
/// other nodes is not known.
Status CheckTmp(const JobSpec& spec) {
  const auto tmp = options::Value(spec, "tmp");
  const auto size = tmp ? dialect::ParseSize(*tmp, 1 << 20) : Result<Bytes>(Bytes(0));
  struct statvfs room {};
  if (!size || *size <= Bytes(0) || ::statvfs("/tmp", &room) != 0) return {};
  const auto all = static_cast<std::int64_t>(room.f_blocks) * static_cast<std::int64_t>(room.f_frsize);
  if (size->count() <= all) return {};
  DIVVY_TRY(const std::vector<NodeRow> nodes, FetchNodes());
  if (nodes.size() != 1 || HostOf(nodes.front()) != Hostname()) return {};
  return InvalidArgument("Requested node configuration is not available: --tmp=" + *tmp + " is more than the " +
                         dialect::FormatSize(Bytes(all)) + " of /tmp here");
}

}  // namespace

Status Complete(JobSpec& spec) {
  dialect::FitTimeLimit(spec, CallerParseContext().now);
  CaptureInto(spec);
  DIVVY_CHECK(LowerAccount(spec));
  DIVVY_CHECK(CheckTmp(spec));
  DIVVY_CHECK(LeaveWholePartition(spec));
  std::optional<int> gpus;
  const auto is_exclusive = [](const Component& one) { return one.labels.contains(options::LabelOf("exclusive")); };
  if (options::Value(spec, "exclusive") || std::ranges::any_of(spec.request.others, is_exclusive)) {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(gpus, GpusOfAMachine(api));
  }
  dialect::CompleteSlurm(spec, gpus);
  return {};
}

namespace {

/// The job's partition, or the default one.
std::string PartitionOf(const JobSpec& spec, const std::vector<NodeRow>& nodes) {
  if (!spec.pool.empty()) return spec.pool;
  if (!nodes.empty() && nodes.front().pools != nullptr) {
    for (const wire::PoolView& pool : *nodes.front().pools) {
      if (pool.is_default) return pool.name;
    }
  }
  return std::string(dialect::kSlurmPartition);
}

}  // namespace

int TestOnly(std::string_view program, const JobSpec& spec) {
  const std::string name(program);
  if (const Status complete = dialect::CheckComplete(spec); !complete) return FailAs(program, complete.error().message);
  if (const Status several = CheckSeveral(spec); !several)
    return FailAs(program, "allocation failure: " + InSlurmsWords(several.error().message));
  auto api = Api::Connect();
  if (!api) return FailAs(program, api.error());
  const auto text = api->Raw("POST", "/v1/jobs", "{\"is_test\":true,\"spec\":" + wire::EncodeChanged(spec) + "}");
  if (!text) return FailAs(program, "allocation failure: " + InSlurmsWords(text.error().message, spec));
  const auto answer = DecodeShown<wire::SubmitAnswer>(*text);
  if (!answer) return FailAs(program, answer.error().message);
  for (const std::string& note : spec.notes) Note(note);
  if (!answer->predicted_start) {
    std::fprintf(stderr, "%s: Job could be submitted: %s; when it would start is not known: %s\n", name.c_str(),
                 dialect::Summarise(spec).c_str(), answer->prediction_basis.c_str());
    return 0;
  }
  std::vector<std::string> hosts;
  for (const std::string& node : answer->nodes) hosts.push_back(node.substr(0, node.find('.')));
  // For a later start, only the number of nodes is known, unless there is only one node.
  const std::vector<NodeRow> machines = FetchNodes().value_or(std::vector<NodeRow>());
  if (hosts.empty() && machines.size() == 1) hosts.push_back(Hostname());
  int cpus = 0;
  for (std::size_t i = 0; i < spec.request.components(); ++i) {
    const Request request = ComponentOf(spec.request, i);
    cpus += std::max({request.cpus * std::max(request.nodes, 1), request.tasks, 1});
  }
  std::fprintf(stderr, "%s: Job %s to start at %s using %d processors on nodes %s in partition %s\n", name.c_str(),
               ToString(answer->id).c_str(), Moment(answer->predicted_start).c_str(), cpus,
               hosts.empty() ? "(not chosen yet)" : dialect::FoldHostList(hosts).c_str(),
               PartitionOf(spec, machines).c_str());
  return 0;
}

namespace {

/// "srun: jobid 7: nodes(1):`n1', cpu counts: 2(x1)".
void PrintAllocation(const std::string& program, const std::string& id) {
  auto api = Api::Connect();
  const auto job = api ? api->Job(id) : Result<wire::JobDetail>(api.error());
  if (!job) return;
  const wire::JobView view = ViewOf(*job);
  const std::string nodes = std::to_string(NodeCountOf(view));
  std::fprintf(stderr, "%s: jobid %s: nodes(%s):`%s', cpu counts: %s(x%s)\n", program.c_str(), id.c_str(),
               nodes.c_str(), HostListOf(view, SceneOf(*api, {view})).c_str(),
               std::to_string(CpusPerNode(view)).c_str(), nodes.c_str());
}

}  // namespace

Voice SlurmVoice(std::string_view program, std::string_view refusal, const JobSpec& asked, int verbosity) {
  const std::string name(program);
  Voice voice{.program = name, .trouble = name + ": error: ", .waits = "queued and waiting for resources"};
  PrintReadOptions(program, asked, verbosity);
  // In Slurm, heterogeneous jobs always wait for the scheduler, so programs expect the line.
  const bool is_announced = asked.request.is_heterogeneous();
  voice.on_begun = [name, verbosity, is_announced](const std::string& id, bool was_queued) {
    if (was_queued || is_announced)
      std::fprintf(stderr, "%s: job %s has been allocated resources\n", name.c_str(), id.c_str());
    if (verbosity > 0) PrintAllocation(name, id);
  };
  voice.refuse = [name, refusal = std::string(refusal), asked](const Error& error) {
    return FailAs(name, refusal + InSlurmsWords(error.message, asked));
  };
  voice.fail = [name](const Error& error) { return FailAs(name, error.message); };
  return voice;
}

std::vector<std::string> SelfWords(std::string_view name, const std::vector<std::string>& words) {
  std::array<char, PATH_MAX> exe{};
  std::vector<std::string> self = {std::string(name)};
  if (::readlink("/proc/self/exe", exe.data(), exe.size() - 1) > 0) self.insert(self.begin(), exe.data());
  // If we were called through a link, argv[0] is its path or is found in PATH. The link's name makes the program this
  // tool, so use the same link again if it still leads here.
  std::FILE* file = std::fopen("/proc/self/cmdline", "re");
  if (file != nullptr) {
    std::array<char, PATH_MAX> argv0{};
    const std::size_t got = std::fread(argv0.data(), 1, argv0.size() - 1, file);
    std::fclose(file);
    const std::string called = got > 0 ? argv0.data() : "";
    std::vector<std::string> candidates;
    if (called.find('/') != std::string::npos) {
      candidates.push_back(called);
    } else if (const char* path = std::getenv("PATH"); path != nullptr) {
      for (const std::string_view folder : Split(path, ':')) candidates.push_back(std::string(folder) + "/" + called);
    }
    for (const std::string& candidate : candidates) {
      std::array<char, PATH_MAX> real{};
      std::array<char, PATH_MAX> cwd{};
      const bool leads_here =
          ::realpath(candidate.c_str(), real.data()) != nullptr && std::string_view(real.data()) == exe.data();
      if (!leads_here || candidate.substr(candidate.find_last_of('/') + 1) != name) continue;
      const bool is_absolute = candidate.front() == '/';
      self = {is_absolute || ::getcwd(cwd.data(), cwd.size()) == nullptr ? candidate
                                                                         : std::string(cwd.data()) + "/" + candidate};
      break;
    }
  }
  self.insert(self.end(), words.begin(), words.end());
  return self;
}

dialect::Option Immediate(std::optional<Duration>& immediate) {
  dialect::Option option = Ignored("immediate", 'I', dialect::Takes::kOptionalValue);
  option.value_name = "SECONDS";
  option.help = "Fail instead of waiting, or of waiting longer than this";
  option.is_hidden = false;
  option.apply = [&immediate](std::string_view value) -> Status {
    std::int64_t seconds = 1;
    if (!value.empty()) {
      DIVVY_TRY(seconds, options::ParseCount(value, 0, 1'000'000'000));
    }
    immediate = std::chrono::seconds(seconds);
    return {};
  };
  return option;
}

std::vector<dialect::Option> Without(std::vector<dialect::Option> options, const std::vector<std::string_view>& names) {
  std::erase_if(options,
                [&](const dialect::Option& option) { return std::ranges::find(names, option.name) != names.end(); });
  return options;
}

}  // namespace divvy::cli::slurm
