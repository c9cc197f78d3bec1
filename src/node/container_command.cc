#include "node/container_command.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::string_view kScriptFolder = "/run/divvy/";

bool IsOci(EngineKind kind) { return kind == EngineKind::kPodman || kind == EngineKind::kDocker; }

std::vector<std::string> ListWords(std::string_view list) {
  std::vector<std::string> words;
  for (const std::string_view word : Split(list, ',')) {
    if (!Trim(word).empty()) words.emplace_back(Trim(word));
  }
  return words;
}

std::string_view NameOf(std::string_view entry) { return entry.substr(0, entry.find('=')); }

bool IsNamed(const ContainerPlan& plan, std::string_view name) {
  return std::ranges::find(plan.variables, name) != plan.variables.end();
}

/// Returns the variables of the process that are passed to the container.
std::vector<std::string> Passed(const ContainerPlan& plan, const ContainerGround& ground) {
  std::vector<std::string> out;
  for (const std::string& entry : ground.environment) {
    const std::string_view name = NameOf(entry);
    if (GoesIntoContainers(name) || IsNamed(plan, name)) out.push_back(entry);
  }
  return out;
}

/// Returns the variables that the machine sets inside. For a variable that the job names, the job's own value is passed
/// instead; it already starts with the machine's part.
std::vector<std::string> SetInside(const ContainerPlan& plan, const ContainerGround& ground) {
  std::vector<std::string> out = ground.needs.environment;
  std::erase_if(out, [&](const std::string& entry) { return IsNamed(plan, NameOf(entry)); });
  return out;
}

/// Returns the command line inside: the command, or the interpreter with the script.
std::vector<std::string> Program(const ContainerPlan& plan, const ContainerGround& ground) {
  std::vector<std::string> out;
  if (!ground.script.empty()) {
    const std::string_view line = plan.interpreter;
    // Like the kernel's "#!" line: everything after the interpreter is one argument.
    const auto blank = line.find_first_of(" \t");
    out.emplace_back(line.substr(0, blank));
    if (blank != std::string_view::npos) out.emplace_back(Trim(line.substr(blank)));
    out.push_back(std::string(kScriptFolder) + ground.script_name);
  }
  out.insert(out.end(), ground.words.begin(), ground.words.end());
  return out;
}

/// Returns all mounts. The plan's mounts come after the working directory, so that they can overlay it.
Result<std::vector<ContainerMount>> Mounts(const ContainerPlan& plan, const ContainerGround& ground) {
  std::vector<ContainerMount> mounts;
  const bool is_named =
      std::ranges::any_of(plan.mounts, [&](const ContainerMount& mount) { return mount.target == ground.directory; });
  if (ground.directory != "/" && !is_named) mounts.push_back({ground.directory, ground.directory, false});
  if (!ground.script.empty()) mounts.push_back({ground.script, std::string(kScriptFolder) + ground.script_name, true});
  mounts.insert(mounts.end(), plan.mounts.begin(), plan.mounts.end());
  for (const ContainerMount& need : ground.needs.mounts) {
    const bool is_there = std::ranges::any_of(mounts, [&](const ContainerMount& other) {
      return other.target == need.target && other.source == need.source;
    });
    if (!is_there) mounts.push_back(need);
  }
  const std::string_view bad = IsOci(ground.kind) ? ",\n\"" : ",:\n";
  for (const ContainerMount& mount : mounts) {
    for (const std::string& path : {mount.source, mount.target}) {
      if (path.find_first_of(bad) != std::string::npos) {
        return InvalidArgument("'" + path + "' cannot be mounted into a container: " +
                               std::string(EngineName(ground.kind)) + " does not accept a path with a " +
                               (IsOci(ground.kind) ? "comma" : "comma or colon") + "; use another path");
      }
    }
  }
  return mounts;
}

void AddUser(const ContainerGround& ground, std::vector<std::string>& argv) {
  if (ground.uid == 0) return;  // root in the container is the submitter.
  if (ground.kind == EngineKind::kPodman) {
    argv.push_back("--userns=keep-id");
    return;
  }
  // docker's service runs as root, and so would the job without this option.
  argv.push_back("--user=" + std::to_string(ground.uid) + ":" + std::to_string(ground.gid));
  for (const std::int64_t group : ground.groups) {
    if (group != ground.gid) argv.push_back("--group-add=" + std::to_string(group));
  }
}

void AddGpus(const ContainerGround& ground, std::vector<std::string>& argv) {
  if (ground.gpus.empty()) return;
  if (ground.kind == EngineKind::kPodman) {
    for (const std::string& gpu : ground.gpus) argv.push_back("--device=nvidia.com/gpu=" + gpu);
    return;
  }
  // docker requires the quotes: the option's value is a list, and the devices form one item of it.
  argv.push_back("--gpus=\"device=" + Join(ground.gpus, ",") + "\"");
}

Result<ContainerCommand> OciCommand(const ContainerPlan& plan, const ContainerGround& ground) {
  DIVVY_TRY(const auto mounts, Mounts(plan, ground));
  const bool is_podman = ground.kind == EngineKind::kPodman;
  ContainerCommand out;
  std::vector<std::string>& argv = out.argv;
  argv = {ground.engine, "run", "--name=" + ground.name, "--label=divvy=1", "--pull=never", "--interactive"};
  // A docker container is kept until divvy has asked whether it had started.
  if (is_podman) argv.insert(argv.end(), {"--rm"});
  if (is_podman && !ground.pid_file.empty()) argv.push_back("--pidfile=" + ground.pid_file);
  if (ground.has_terminal) argv.push_back("--tty");
  argv.insert(argv.end(), {"--log-driver=none", "--network=host", "--ipc=host", "--pid=host",
                           "--security-opt=label=disable", "--entrypoint="});
  AddUser(ground, argv);
  AddGpus(ground, argv);
  // Rootless podman may be unable to set cgroup limits; its processes stay in the job's cgroup.
  if (ground.memory_bytes > 0 && (!is_podman || ground.uid == 0))
    argv.push_back("--memory=" + std::to_string(ground.memory_bytes) + "b");
  for (const ContainerMount& mount : mounts) {
    argv.push_back("--mount=type=bind,source=" + mount.source + ",target=" + mount.target +
                   (mount.is_read_only ? ",readonly" : ""));
  }
  argv.push_back("--workdir=" + (plan.directory.empty() ? ground.directory : plan.directory));
  // Only the name is passed, so that ps does not show the values.
  for (const std::string& entry : Passed(plan, ground)) argv.push_back("--env=" + std::string(NameOf(entry)));
  // With the value: docker or podman itself may run with another value of the same variable.
  for (const std::string& entry : SetInside(plan, ground)) argv.push_back("--env=" + entry);
  argv.insert(argv.end(), ground.options.begin(), ground.options.end());
  argv.push_back(plan.image);
  for (std::string& word : Program(plan, ground)) argv.push_back(std::move(word));
  out.environment = ground.environment;
  return out;
}

Result<ContainerCommand> ApptainerCommand(const ContainerPlan& plan, const ContainerGround& ground) {
  DIVVY_TRY(const auto mounts, Mounts(plan, ground));
  ContainerCommand out;
  std::vector<std::string>& argv = out.argv;
  argv = {ground.engine, "exec", "--cleanenv", "--no-home"};
  if (!ground.gpus.empty()) argv.push_back("--nv");
  for (const ContainerMount& mount : mounts)
    argv.push_back("--bind=" + mount.source + ":" + mount.target + (mount.is_read_only ? ":ro" : ""));
  argv.push_back("--pwd=" + (plan.directory.empty() ? ground.directory : plan.directory));
  argv.insert(argv.end(), ground.options.begin(), ground.options.end());
  const bool is_file = plan.image.front() == '/' || plan.image.find("://") != std::string::npos;
  argv.push_back(is_file ? plan.image : "docker://" + plan.image);
  for (std::string& word : Program(plan, ground)) argv.push_back(std::move(word));
  out.environment = ground.environment;
  const std::string prefix = ground.kind == EngineKind::kApptainer ? "APPTAINERENV_" : "SINGULARITYENV_";
  for (const std::string& entry : Passed(plan, ground)) out.environment.push_back(prefix + entry);
  for (const std::string& entry : SetInside(plan, ground)) out.environment.push_back(prefix + entry);
  if (!ground.gpus.empty()) out.environment.push_back(prefix + "NVIDIA_VISIBLE_DEVICES=" + Join(ground.gpus, ","));
  return out;
}

}  // namespace

std::string_view EngineName(EngineKind kind) {
  switch (kind) {
    case EngineKind::kPodman:
      return "podman";
    case EngineKind::kDocker:
      return "docker";
    case EngineKind::kApptainer:
      return "apptainer";
    case EngineKind::kSingularity:
      break;
  }
  return "singularity";
}

Result<ContainerCommand> MakeContainerCommand(const ContainerPlan& plan, const ContainerGround& ground) {
  return IsOci(ground.kind) ? OciCommand(plan, ground) : ApptainerCommand(plan, ground);
}

bool GoesIntoContainers(std::string_view name) {
  static constexpr std::array<std::string_view, 15> kPrefixes = {"DIVVY_", "SLURM_", "SRUN_",   "CUDA_",  "NVIDIA_",
                                                                 "NCCL_",  "UCX_",   "OMP_",    "VH_",    "GFLOW_",
                                                                 "PMI_",   "PMIX_",  "MASTER_", "TORCH_", "OMPI_"};
  static constexpr std::array<std::string_view, 15> kNames = {
      "RANK",       "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NNODES",      "NODE_RANK", "TERM",   "TZ",
      "http_proxy", "https_proxy", "no_proxy",   "HTTP_PROXY",       "HTTPS_PROXY", "NO_PROXY",  "COLUMNS"};
  // Paths of the host do not apply to the image.
  if (name == "CUDA_HOME" || name == "CUDA_PATH" || name == "NCCL_ROOT") return false;
  if (name.starts_with(kContainerVariable)) return false;
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string VisibleByUuid(std::string_view visible, std::string_view indices, std::string_view uuids) {
  const std::vector<std::string> known = ListWords(indices);
  const std::vector<std::string> names = ListWords(uuids);
  std::vector<std::string> out = ListWords(visible);
  if (known.size() != names.size()) return std::string(visible);
  for (std::string& word : out) {
    const auto at = std::ranges::find(known, word);
    if (at != known.end()) word = names[static_cast<std::size_t>(at - known.begin())];
  }
  return Join(out, ",");
}

Result<std::vector<std::string>> FindCdiNames(const std::vector<std::string>& descriptions, std::string_view indices,
                                              std::string_view uuids) {
  // Only checks whether a device of that name is described. Without quotes and blanks, `name: "0"`, `"name":"0"` and `-
  // name: 0` all look the same.
  std::vector<std::string> plain;
  for (const std::string& text : descriptions) {
    if (text.find("nvidia.com/gpu") == std::string::npos) continue;
    std::string& out = plain.emplace_back();
    for (const char c : text) {
      if (c != '"' && c != '\'' && c != ' ' && c != '\t' && c != '\r') out += c;
    }
    out += '\n';
  }
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(plain, [&](const std::string& text) {
      const std::string wanted = "name:" + name;
      for (auto at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
        if (std::string_view(",}\n").find(text[at + wanted.size()]) != std::string_view::npos) return true;
      }
      return false;
    });
  };
  const std::vector<std::string> by_index = ListWords(indices);
  const std::vector<std::string> by_uuid = ListWords(uuids);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < by_index.size(); ++i) {
    if (i < by_uuid.size() && has(by_uuid[i])) out.push_back(by_uuid[i]);
    else if (has(by_index[i])) out.push_back(by_index[i]);
    else
      return FailedPrecondition("GPU " + by_index[i] +
                                " is in no CDI description (/etc/cdi, /var/run/cdi), so podman cannot give it to a "
                                "container; as root: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml");
  }
  return out;
}

std::string WhyNotStarted(EngineKind kind, int code, bool has_started, std::string_view program,
                          std::string_view image) {
  if (code == 0 || has_started) return "";
  const std::string engine(EngineName(kind));
  const std::string in = " in image '" + std::string(image) + "'";
  if (IsOci(kind) && code == 127) return "there is no program '" + std::string(program) + "'" + in;
  if (IsOci(kind) && code == 126)
    return "'" + std::string(program) + "'" + in + " could not be started; the message of " + engine +
           " is in the output";
  // The engine's own failures end with 255; any other code may be the program's.
  if (!IsOci(kind) && code != 255) return "";
  return engine + " could not start a container of image '" + std::string(image) + "' (its exit code " +
         std::to_string(code) + "); its message is in the output";
}

}  // namespace divvy
