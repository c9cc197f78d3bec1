// What a job wants of its container, as it travels in one environment variable from the node, or from a step process,
// to the process that starts the container. Whoever starts it looks for the engine; the plan is the same for all of
// them.
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
  std::string image;  // As podman and docker name it; or the path of a .sif file. Never empty.
  std::vector<ContainerMount> mounts;
  std::string directory;               // Where the program starts, inside; empty: where the process outside stands.
  std::vector<std::string> variables;  // Names that go in besides those of divvy, Slurm, CUDA, ...
  /// Of a script: its "#!" line without those two letters, for that line is divvy's now. Empty: a command.
  std::string interpreter;

  friend bool operator==(const ContainerPlan&, const ContainerPlan&) = default;
};

/// What a container needs of its machine besides what the job asked for: what the keeper of shared GPUs gives the job's
/// processes, and, where the GPUs are stand-ins, these. The node says it, once for all containers inside the job.
struct ContainerNeeds {
  std::vector<ContainerMount> mounts;
  std::vector<std::string> environment;  // NAME=value, inside; of a variable that the job names its own value counts.
  /// GPUs that are to be open inside, where they are more than the job's own; in the same order.
  std::vector<std::string> gpu_indices;
  std::vector<std::string> gpu_uuids;

  bool empty() const { return mounts.empty() && environment.empty() && gpu_indices.empty(); }
  friend bool operator==(const ContainerNeeds&, const ContainerNeeds&) = default;
};

/// [container] of divvy.toml.
struct ContainerSettings {
  // "podman", "docker", "apptainer", "singularity", the path of one of them, or the first that is there.
  std::string engine = "auto";
  std::vector<std::string> options;  // Further words for the engine, before the image.
  bool runs_valohai_images = false;  // Steps of valohai.yaml run in their image.

  friend bool operator==(const ContainerSettings&, const ContainerSettings&) = default;
};

/// The variable that carries FormatContainerPlan()'s text.
inline constexpr std::string_view kContainerVariable = "DIVVY_CONTAINER";
/// What divvy.toml says of containers, for those that start inside a job: the engine's name; further words for it, one
/// a line. Not set: "auto", and none.
inline constexpr std::string_view kContainerEngineVariable = "DIVVY_CONTAINER_ENGINE";
inline constexpr std::string_view kContainerOptionsVariable = "DIVVY_CONTAINER_OPTIONS";
/// FormatContainerNeeds()'s text; not set: nothing.
inline constexpr std::string_view kContainerNeedsVariable = "DIVVY_CONTAINER_NEEDS";
/// "own": CUDA_VISIBLE_DEVICES counts the job's GPUs alone, from 0. Not set: it has the server's indices.
inline constexpr std::string_view kContainerGpusVariable = "DIVVY_CONTAINER_GPUS";

std::string FormatContainerPlan(const ContainerPlan& plan);
/// Refuses what FormatContainerPlan() cannot have written.
Result<ContainerPlan> ParseContainerPlan(std::string_view text);

std::string FormatContainerNeeds(const ContainerNeeds& needs);
/// Refuses what FormatContainerNeeds() cannot have written.
Result<ContainerNeeds> ParseContainerNeeds(std::string_view text);

/// The script with a first line that has divvy start the container. It takes the place of the script's own "#!" line,
/// so that line numbers stay as they are; a script without one gets a line more.
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

/// Beside the list of a job's steps: which containers it has begun and ended. A line a fact, appended by whoever starts
/// them; what is begun and not ended when the job is over is removed by the node.
struct ContainerLog {
  std::vector<std::string> left;  // Names of those begun and not ended.
  std::string engine;             // The path of the program that began the last one.
  std::string failure;            // Why the last one that did not start did not; empty: all started.
  /// NAME=value of kContainerEngineEnvironment.
  std::vector<std::string> environment;
};
std::string ContainerBegunText(std::string_view engine, std::string_view name,
                               const std::vector<std::string>& environment);
std::string ContainerEndedText(std::string_view name);
std::string ContainerFailedText(std::string_view why);
/// The most that is read of such a file, in bytes, and of names in it. The daemon's loop reads it at the end of a job.
inline constexpr std::size_t kContainerLogMost = 256 << 10;
inline constexpr std::size_t kContainersMost = 256;
/// The file is the user's own: lines that are none of these are passed over, and what is beyond the two bounds above is
/// not read. Cost: some milliseconds at most.
ContainerLog ReadContainerLog(std::string_view text);

}  // namespace divvy
