// The words with which an engine starts a job's container. Pure: what is known of the machine is an argument.
//
// A container of divvy's is the image's file system around a process that otherwise is the job's as it would be
// outside: the host's network, process numbers and shared memory (NCCL and CUDA IPC go through them), the submitter's
// user, the same working directory. Only its GPUs are in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/container_plan.h"

namespace divvy {

enum class EngineKind { kPodman, kDocker, kApptainer, kSingularity };
/// "podman", ...: also the name of its program.
std::string_view EngineName(EngineKind kind);

/// What goes into a container, besides the plan.
struct ContainerGround {
  EngineKind kind = EngineKind::kPodman;
  std::string engine;  // Path of the engine's program.
  std::string name;    // The container's; unique on the machine.
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  std::vector<std::int64_t> groups;  // Supplementary ones.
  std::string directory;             // The working directory outside; mounted at the same path.
  /// The script's path outside and the name that $0 ends in; empty: a command.
  std::string script;
  std::string script_name;
  std::vector<std::string> words;  // The command; of a script its arguments.
  /// What the engine calls the job's GPUs: of podman CDI names behind "nvidia.com/gpu=", of docker indices or UUIDs.
  std::vector<std::string> gpus;
  std::vector<std::string> environment;  // The process's own, NAME=value.
  std::vector<std::string> options;      // Further words for the engine, before the image.
  std::string pid_file;                  // podman writes the first process's number there; empty: nowhere.
  ContainerNeeds needs;                  // Of the machine; mounted and set inside.
  std::int64_t memory_bytes = 0;         // 0: no limit of the engine's.
  bool has_terminal = false;
};

struct ContainerCommand {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // All of it, for the engine's process.
};
/// Refuses a plan that the engine cannot be told: a comma in a mounted path.
Result<ContainerCommand> MakeContainerCommand(const ContainerPlan& plan, const ContainerGround& ground);

/// Whether the variable `name` goes into containers without being named: what divvy, Slurm, CUDA and the like set.
bool GoesIntoContainers(std::string_view name);

/// `visible`, a CUDA_VISIBLE_DEVICES of the host's indices, in UUIDs, which mean the same GPUs inside a container that
/// has not all of them. `indices` and `uuids` are the job's GPUs in the same order; words that are none of the
/// indices stay.
std::string VisibleByUuid(std::string_view visible, std::string_view indices, std::string_view uuids);

/// The names of a CDI description (YAML or JSON) that stand for the job's GPUs: by UUID where it has those, else by
/// index. Refuses when a GPU is in none of `descriptions`.
Result<std::vector<std::string>> FindCdiNames(const std::vector<std::string>& descriptions, std::string_view indices,
                                              std::string_view uuids);

/// How the end of an engine's foreground process is to be read. `code` is as a shell has it. `has_started`: the
/// container's program was begun. Empty: the code is the program's own.
std::string WhyNotStarted(EngineKind kind, int code, bool has_started, std::string_view program,
                          std::string_view image);

}  // namespace divvy
