// --image and related options, and pyxis' equivalent --container-* options of sbatch and srun. Like task options they
// are stored as labels of the job, because only its node and its step process read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/container_plan.h"
#include "model/job.h"

namespace divvy::dialect {

/// Normalises an image name for podman and docker. enroot's "nvcr.io#nvidia/pytorch:24.01" becomes
/// "nvcr.io/nvidia/pytorch:24.01", and a leading "docker://" is removed. The path of a .sif file is unchanged. Refuses
/// a .sqsh file.
Result<std::string> ReadImage(std::string_view text);

/// Parses "SRC:DST[:ro|rw]" or "SRC", separated by commas. Relative sources start at `directory`; "~" is `home`.
Result<std::vector<ContainerMount>> ReadMounts(std::string_view text, std::string_view directory,
                                               std::string_view home);

/// --image, --mount, --container-workdir.
void AddContainerOptions(std::vector<Option>& table, JobSpec& spec);
/// --container-image, --container-mounts, --container-workdir, --container-env, --container-mount-home.
void AddSlurmContainerOptions(std::vector<Option>& table, JobSpec& spec);

/// Returns the container in which the job runs; nullopt if it runs in none. `runs_valohai_images`: steps of
/// valohai.yaml run in their image. Fails if a label has an invalid value; normally the option has refused the value
/// before.
Result<std::optional<ContainerPlan>> ContainerOf(const JobSpec& spec, bool runs_valohai_images);

/// Fails if a job without a container has a mount or a container working directory.
Status CheckContainer(const JobSpec& spec);

/// Describes the job's container: "in a container from image pytorch:24.01". Empty for a job without a container.
std::string ContainerReading(const JobSpec& spec);

}  // namespace divvy::dialect
