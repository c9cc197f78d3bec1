// The container that a job requests. It travels in one environment variable from the node, or from a step process, to
// the process that starts the container. That process chooses the engine; the plan does not depend on it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy {

struct ContainerMount {
  std::string source;  // Absolute, outside.
  std::string target;  // Absolute, inside.
  bool is_read_only = false;

  friend bool operator==(const ContainerMount&, const ContainerMount&) = default;
};

struct ContainerPlan {
  std::string image;  // A name for podman and docker, or the path of a .sif file. Never empty.
  std::vector<ContainerMount> mounts;
  std::string directory;               // Working directory inside. Empty: the same path as outside.
  std::vector<std::string> variables;  // Names of variables to pass in, in addition to those of divvy, Slurm, CUDA, ...
  /// For a script: its original interpreter line without "#!", because divvy replaced that line. Empty: a command.
  std::string interpreter;

  friend bool operator==(const ContainerPlan&, const ContainerPlan&) = default;
};

/// Requirements of a container beyond the job's request: what the keeper of shared GPUs gives the job's processes, and,
/// for emulated GPUs, the stand-ins. The node sets them once for all containers of a job.
struct ContainerNeeds {
  std::vector<ContainerMount> mounts;
  std::vector<std::string> environment;  // NAME=value, inside. If the job sets a variable itself, its own value wins.
  /// GPUs that must be accessible inside, if they are more than the job's own. Both lists have the same order.
  std::vector<std::string> gpu_indices;
  std::vector<std::string> gpu_uuids;

  bool empty() const { return mounts.empty() && environment.empty() && gpu_indices.empty(); }
  friend bool operator==(const ContainerNeeds&, const ContainerNeeds&) = default;
};

/// [container] of divvy.toml.
struct ContainerSettings {
  // "podman", "docker", "apptainer", "singularity", or the path of one of them. "auto": the first one found.
  std::string engine = "auto";
  std::vector<std::string> options;  // Additional arguments for the engine, before the image.
  bool runs_valohai_images = false;  // Whether steps of valohai.yaml run in their image.

  friend bool operator==(const ContainerSettings&, const ContainerSettings&) = default;
};

/// The variable that carries FormatContainerPlan()'s text.
inline constexpr std::string_view kContainerVariable = "DIVVY_CONTAINER";
/// The container settings of divvy.toml, for containers that are started inside a job: the engine's name, and its
/// additional arguments, one per line. If they are not set, the engine is "auto" and there are no additional arguments.
inline constexpr std::string_view kContainerEngineVariable = "DIVVY_CONTAINER_ENGINE";
inline constexpr std::string_view kContainerOptionsVariable = "DIVVY_CONTAINER_OPTIONS";
/// The variable that carries FormatContainerNeeds()'s text. Not set: no needs.
inline constexpr std::string_view kContainerNeedsVariable = "DIVVY_CONTAINER_NEEDS";
/// "own": CUDA_VISIBLE_DEVICES counts only the job's GPUs, from 0. Not set: it has the node's indices.
inline constexpr std::string_view kContainerGpusVariable = "DIVVY_CONTAINER_GPUS";

std::string FormatContainerPlan(const ContainerPlan& plan);
/// Parses a text of FormatContainerPlan(). Fails for any text that this function cannot have written.
Result<ContainerPlan> ParseContainerPlan(std::string_view text);

std::string FormatContainerNeeds(const ContainerNeeds& needs);
/// Parses a text of FormatContainerNeeds(). Fails for any text that this function cannot have written.
Result<ContainerNeeds> ParseContainerNeeds(std::string_view text);

/// The script with a first line that makes divvy start the container. This line replaces the script's own "#!" line, so
/// line numbers stay the same. A script without a "#!" line gets one more line.
struct ContainerScript {
  std::string text;
  std::string interpreter;  // For ContainerPlan::interpreter.
};
ContainerScript WrapScript(std::string_view script, std::string_view divvy);

/// The variables that an engine needs to find its containers again when it is called from outside the job.
inline constexpr std::array<std::string_view, 10> kContainerEngineEnvironment = {"PATH",
                                                                                 "HOME",
                                                                                 "XDG_RUNTIME_DIR",
                                                                                 "XDG_DATA_HOME",
                                                                                 "XDG_CONFIG_HOME",
                                                                                 "TMPDIR",
                                                                                 "CONTAINERS_CONF",
                                                                                 "CONTAINERS_STORAGE_CONF",
                                                                                 "DOCKER_HOST",
                                                                                 "DOCKER_CONFIG"};

/// The log of the containers that a job has started and ended, next to its step list. The process that starts a
/// container appends one line per fact. When the job is over, the node removes the containers that were started and not
/// ended.
struct ContainerLog {
  std::vector<std::string> left;  // Names of the containers that were started and not ended.
  std::string engine;             // The path of the engine that started the last one.
  std::string failure;            // Why the last failed start failed. Empty: all starts succeeded.
  /// NAME=value, for names in kContainerEngineEnvironment.
  std::vector<std::string> environment;
};
std::string ContainerBegunText(std::string_view engine, std::string_view name,
                               const std::vector<std::string>& environment);
std::string ContainerEndedText(std::string_view name);
std::string ContainerFailedText(std::string_view why);
/// Limits for reading the container log of a job: its size in bytes, and the number of names in it. The daemon's event
/// loop reads the log when a job ends.
inline constexpr std::size_t kContainerLogMost = 256 << 10;
inline constexpr std::size_t kContainersMost = 256;
/// Reads the text of a container log. The job's user can write the log, so invalid lines are skipped, and only
/// kContainerLogMost bytes and kContainersMost names are read. Cost: a few milliseconds at most.
ContainerLog ReadContainerLog(std::string_view text);

}  // namespace divvy
