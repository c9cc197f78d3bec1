// The command line with which a container engine starts a job's container. Pure: facts about the machine are arguments.
//
// A container provides the image's file system. Otherwise the process runs as it would outside: it has the host's
// network, PID namespace and shared memory (needed by NCCL and CUDA IPC), the submitter's user and the same working
// directory. It sees only the job's GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/container_plan.h"

namespace divvy {

enum class EngineKind { kPodman, kDocker, kApptainer, kSingularity };
/// Returns "podman", "docker", ...; this is also the program's name.
std::string_view EngineName(EngineKind kind);

/// Inputs for the container command, in addition to the plan.
struct ContainerGround {
  EngineKind kind = EngineKind::kPodman;
  std::string engine;  // Path of the engine's program.
  std::string name;    // Container name, unique on the machine.
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  std::vector<std::int64_t> groups;  // Supplementary groups.
  std::string directory;             // Working directory outside; mounted at the same path.
  /// Path of the script outside, and the base name of $0. Empty: a command.
  std::string script;
  std::string script_name;
  std::vector<std::string> words;  // The command, or the script's arguments.
  /// The engine's names of the job's GPUs. For podman: CDI names that follow "nvidia.com/gpu="; for docker: indices or
  /// UUIDs.
  std::vector<std::string> gpus;
  std::vector<std::string> environment;  // The process's environment, as NAME=value.
  std::vector<std::string> options;      // Additional engine arguments, placed before the image.
  std::string pid_file;                  // podman writes the first process's pid there. Empty: not written.
  ContainerNeeds needs;                  // Mounts and variables that the machine requires inside.
  std::int64_t memory_bytes = 0;         // 0: no memory limit by the engine.
  bool has_terminal = false;
};

struct ContainerCommand {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // Complete environment of the engine's process.
};
/// Returns an error for a plan that the engine cannot express: a path with a comma in a mount.
Result<ContainerCommand> MakeContainerCommand(const ContainerPlan& plan, const ContainerGround& ground);

/// Returns true if the variable is passed to containers without being named: variables of divvy, Slurm, CUDA and
/// similar.
bool GoesIntoContainers(std::string_view name);

/// Converts `visible`, a CUDA_VISIBLE_DEVICES value with host indices, to UUIDs. They identify the same GPUs in a
/// container that does not have all of them. `indices` and `uuids` list the job's GPUs in the same order. Entries that
/// are not in `indices` stay unchanged.
std::string VisibleByUuid(std::string_view visible, std::string_view indices, std::string_view uuids);

/// Returns the CDI names of the job's GPUs from the descriptions (YAML or JSON): by UUID if available, otherwise by
/// index. Returns an error if a GPU is in none of `descriptions`.
Result<std::vector<std::string>> FindCdiNames(const std::vector<std::string>& descriptions, std::string_view indices,
                                              std::string_view uuids);

/// Interprets the end of an engine's foreground process. `code`: exit code as in a shell. `has_started`: the
/// container's program was started. Returns "" if the code is the program's own, else why it did not start.
std::string WhyNotStarted(EngineKind kind, int code, bool has_started, std::string_view program,
                          std::string_view image);

}  // namespace divvy
