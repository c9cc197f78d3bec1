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
/// Returns the name of a container engine, which is also its program's name: "podman", "docker", ...
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
/// Returns the engine's command line that runs the container of `plan`. Fails if the engine cannot express the plan: if
/// the path of a mount has a comma.
Result<ContainerCommand> MakeContainerCommand(const ContainerPlan& plan, const ContainerGround& ground);

/// Returns true if this environment variable is always passed on to containers, even if the job does not list it. That
/// holds for variables of divvy, Slurm, CUDA and similar.
bool GoesIntoContainers(std::string_view name);

/// Converts `visible`, a CUDA_VISIBLE_DEVICES value with host indices, to UUIDs. In a container that does not have all
/// GPUs, indices would mean other GPUs, but UUIDs do not. `indices` and `uuids` list the job's GPUs in the same order.
/// Entries that are not in `indices` stay unchanged.
std::string VisibleByUuid(std::string_view visible, std::string_view indices, std::string_view uuids);

/// Returns the names of the job's GPUs in the Container Device Interface (CDI). `descriptions`: the texts of the
/// machine's CDI files (YAML or JSON). A GPU is looked up by UUID, or by index if the files name no UUIDs. Returns an
/// error if a GPU is in none of `descriptions`.
Result<std::vector<std::string>> FindCdiNames(const std::vector<std::string>& descriptions, std::string_view indices,
                                              std::string_view uuids);

/// Returns why the container's program did not start, after the engine's process has ended; "" if it did start, so that
/// `code` is the program's own exit code. `code`: the engine's exit code, as a shell reports it. `has_started`: the
/// program is known to have been started.
std::string WhyNotStarted(EngineKind kind, int code, bool has_started, std::string_view program,
                          std::string_view image);

}  // namespace divvy
