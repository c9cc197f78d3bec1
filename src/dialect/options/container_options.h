// --image and what belongs to it, and pyxis' --container-* of sbatch and srun, which mean the same. Like the options of
// tasks they are labels of the job, because its node and its step process read them and nobody else does.
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

/// An image's name as podman and docker have it: "nvcr.io#nvidia/pytorch:24.01" (enroot's) becomes
/// "nvcr.io/nvidia/pytorch:24.01"; "docker://" in front goes. The path of a .sif file stays. Refuses a .sqsh file.
Result<std::string> ReadImage(std::string_view text);

/// "SRC:DST[:ro|rw]" or "SRC", several with commas between. Relative sources start at `directory`, "~" is `home`.
Result<std::vector<ContainerMount>> ReadMounts(std::string_view text, std::string_view directory,
                                               std::string_view home);

/// --image, --mount, --container-workdir.
void AddContainerOptions(std::vector<Option>& table, JobSpec& spec);
/// --container-image, --container-mounts, --container-workdir, --container-env, --container-mount-home.
void AddSlurmContainerOptions(std::vector<Option>& table, JobSpec& spec);

/// The container that the job is to run in; nothing: none. `runs_valohai_images`: steps of valohai.yaml run in their
/// image. Fails where an option's value was no good, which the option has said before.
Result<std::optional<ContainerPlan>> ContainerOf(const JobSpec& spec, bool runs_valohai_images);

/// That a mount or a working directory is not given for a job without a container.
Status CheckContainer(const JobSpec& spec);

/// "in a container of pytorch:24.01"; empty without one.
std::string ContainerReading(const JobSpec& spec);

}  // namespace divvy::dialect
