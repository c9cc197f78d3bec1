#include "dialect/options/container_options.h"

#include <algorithm>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "dialect/options/slurm_request.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kImage = "divvy.image";
constexpr std::string_view kMounts = "divvy.mounts";
constexpr std::string_view kDirectory = "divvy.container-workdir";

std::string Label(const JobSpec& spec, std::string_view native, std::string_view slurm_option) {
  const auto at = spec.labels.find(std::string(native));
  if (at != spec.labels.end()) return at->second;
  return slurm_option.empty() ? "" : slurm::Value(spec, slurm_option).value_or("");
}

std::string ValohaiLabel(const JobSpec& spec, std::string_view name) {
  const auto at = spec.labels.find(std::string(name));
  return spec.dialect != Dialect::kValohai || at == spec.labels.end() ? "" : at->second;
}

std::string HomeOf(const JobSpec& spec) {
  for (const std::string& entry : spec.capture.environment) {
    if (entry.starts_with("HOME=")) return entry.substr(5);
  }
  return "";
}

Status CheckDirectory(std::string_view text) {
  if (text.starts_with('/') && text.find('\n') == std::string_view::npos) return {};
  return InvalidArgument("'" + std::string(text) +
                         "' is not an absolute path; write the directory inside the container, such as /workspace");
}

Result<std::string> Outside(std::string_view path, std::string_view directory, std::string_view home) {
  if (path == "~" || path.starts_with("~/")) return std::string(home) + std::string(path.substr(1));
  if (path.starts_with('/')) return std::string(path);
  while (path.starts_with("./")) path.remove_prefix(2);
  if (path == ".") return std::string(directory);
  return std::string(directory) + "/" + std::string(path);
}

Result<ContainerMount> ReadMount(std::string_view text, std::string_view directory, std::string_view home) {
  const std::string example = "; write it like /data:/data or /data:/inside:ro";
  const auto parts = Split(text, ':');
  if (parts.size() > 3 || parts.front().empty())
    return InvalidArgument("'" + std::string(text) + "' is not a mount" + example);
  ContainerMount mount;
  DIVVY_TRY(mount.source, Outside(parts.front(), directory, home));
  mount.target = parts.size() > 1 && !parts[1].empty() ? std::string(parts[1]) : mount.source;
  if (!mount.target.starts_with('/'))
    return InvalidArgument("'" + mount.target + "' (the mount point of '" + mount.source +
                           "') is not an absolute path" + example);
  if (parts.size() == 3) {
    if (parts[2] != "ro" && parts[2] != "rw")
      return InvalidArgument("'" + std::string(parts[2]) + "' in '" + std::string(text) +
                             "' is not a mount mode: expected ro or rw");
    mount.is_read_only = parts[2] == "ro";
  }
  return mount;
}

}  // namespace

Result<std::string> ReadImage(std::string_view text) {
  std::string_view image = Trim(text);
  for (const std::string_view scheme : {"docker://", "podman://", "dockerd://"}) {
    if (image.starts_with(scheme)) image.remove_prefix(scheme.size());
  }
  if (image.empty() || image.front() == '-' || image.find_first_of(" \t\n\"") != std::string_view::npos)
    return InvalidArgument("'" + std::string(text) +
                           "' is not an image; write it like nvcr.io/nvidia/pytorch:24.01-py3");
  if (image.ends_with(".sqsh")) {
    return InvalidArgument("'" + std::string(image) +
                           "' is an enroot file, which podman, docker and apptainer cannot run; give the image that it "
                           "was made from, such as nvcr.io/nvidia/pytorch:24.01-py3");
  }
  if (image.front() == '.' || image.front() == '~')
    return InvalidArgument("'" + std::string(image) +
                           "' is a relative path; write the absolute path of the image file");
  if (image.front() == '/') {
    if (image.ends_with(".sif")) return std::string(image);
    return InvalidArgument("'" + std::string(image) +
                           "' is not an image file; only apptainer's .sif files are supported");
  }
  const auto hash = image.find('#');
  if (hash == std::string_view::npos) return std::string(image);
  // enroot's form: [USER@][REGISTRY#]IMAGE[:TAG].
  std::string_view registry = image.substr(0, hash);
  if (const auto at = registry.find('@'); at != std::string_view::npos) registry.remove_prefix(at + 1);
  return std::string(registry) + "/" + std::string(image.substr(hash + 1));
}

Result<std::vector<ContainerMount>> ReadMounts(std::string_view text, std::string_view directory,
                                               std::string_view home) {
  std::vector<ContainerMount> mounts;
  for (const std::string_view part : Split(text, ',')) {
    if (Trim(part).empty()) continue;
    DIVVY_TRY(ContainerMount mount, ReadMount(Trim(part), directory, home));
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

void AddContainerOptions(std::vector<Option>& table, JobSpec& spec) {
  table.push_back(Option::Value(
      "image", "IMAGE",
      "run in a container of this image with podman, docker or apptainer: nvcr.io/nvidia/pytorch:24.01-py3",
      [&spec](std::string_view value) -> Status {
        DIVVY_TRY(spec.labels[std::string(kImage)], ReadImage(value));
        return {};
      },
      {"container-image"}));
  table.push_back(
      Option::Value("mount", "SRC:DST[:ro]",
                    "mount a folder or file into the container, in addition to the working directory; repeatable",
                    [&spec](std::string_view value) -> Status {
                      DIVVY_CHECK(ReadMounts(value, "/", "/"));
                      std::string& mounts = spec.labels[std::string(kMounts)];
                      mounts += (mounts.empty() ? "" : ",") + std::string(value);
                      return {};
                    },
                    {"container-mounts"}));
  table.push_back(Option::Value("container-workdir", "DIR",
                                "directory in the container where the program starts (default: the working directory)",
                                [&spec](std::string_view value) -> Status {
                                  DIVVY_CHECK(CheckDirectory(value));
                                  spec.labels[std::string(kDirectory)] = value;
                                  return {};
                                }));
}

void AddSlurmContainerOptions(std::vector<Option>& table, JobSpec& spec) {
  const auto add = [&](std::string_view name, Takes takes, std::string_view value_name, std::string_view help,
                       Status (*check)(std::string_view)) {
    Option option{.name = name,
                  .takes = takes,
                  .value_name = value_name,
                  .help = help,
                  .apply = [&spec, name, takes, check](std::string_view value) -> Status {
                    if (takes == Takes::kValue && value.empty()) return InvalidArgument("the value is empty");
                    if (check != nullptr) DIVVY_CHECK(check(value));
                    slurm::Keep(spec, name, value);
                    return {};
                  },
                  .aliases = {}};
    table.push_back(std::move(option));
  };
  add("container-image", Takes::kValue, "IMAGE", "run in a container of this image",
      [](std::string_view value) -> Status {
        DIVVY_CHECK(ReadImage(value));
        return {};
      });
  add("container-mounts", Takes::kValue, "SRC:DST[:ro],...", "what is mounted into the container",
      [](std::string_view value) -> Status {
        DIVVY_CHECK(ReadMounts(value, "/", "/"));
        return {};
      });
  add("container-workdir", Takes::kValue, "DIR", "where the program starts in the container", CheckDirectory);
  add("container-env", Takes::kValue, "NAMES", "variables that go into the container as well", nullptr);
  add("container-mount-home", Takes::kNothing, "", "the home directory is mounted into the container", nullptr);
}

Result<std::optional<ContainerPlan>> ContainerOf(const JobSpec& spec, bool runs_valohai_images) {
  std::string image = Label(spec, kImage, "container-image");
  std::string mounts = Label(spec, kMounts, "container-mounts");
  const std::string home = HomeOf(spec);
  if (image.empty() && runs_valohai_images) {
    image = ValohaiLabel(spec, "valohai.image");
    mounts = ValohaiLabel(spec, "valohai.mounts");
  }
  if (image.empty()) return std::optional<ContainerPlan>();
  ContainerPlan plan;
  DIVVY_TRY(plan.image, ReadImage(image));
  DIVVY_TRY(plan.mounts, ReadMounts(mounts, spec.directory, home));
  plan.directory = Label(spec, kDirectory, "container-workdir");
  if (slurm::Value(spec, "container-mount-home") && !home.empty()) plan.mounts.push_back({home, home, false});
  if (const std::string root = ValohaiLabel(spec, "valohai.root"); !root.empty())
    plan.mounts.push_back({root, root, false});
  for (const std::string& pair : spec.extra_environment) plan.variables.push_back(pair.substr(0, pair.find('=')));
  const std::string names = Label(spec, "", "container-env");
  for (const std::string_view name : Split(names, ',')) {
    if (!Trim(name).empty()) plan.variables.emplace_back(Trim(name));
  }
  return std::optional<ContainerPlan>(std::move(plan));
}

Status CheckContainer(const JobSpec& spec) {
  if (spec.dialect == Dialect::kValohai || !Label(spec, kImage, "container-image").empty()) return {};
  for (const auto& [label, option] : {std::pair(kMounts, "--mount"), std::pair(kDirectory, "--container-workdir")}) {
    if (spec.labels.contains(std::string(label)))
      return InvalidArgument(std::string(option) + " needs a container; add --image IMAGE, or omit it");
  }
  return {};
}

std::string ContainerReading(const JobSpec& spec) {
  const auto plan = ContainerOf(spec, false);
  return plan && *plan ? "in a container from image " + (*plan)->image : "";
}

}  // namespace divvy::dialect
