#include "platform/isolation/isolation.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/text.h"
#include "model/steps/task_map.h"
#include "platform/isolation/device_program.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/isolation/job_mounts.h"
#include "platform/os/numa_cores.h"
#include "platform/os/record_text.h"

namespace divvy {
namespace {

const std::string kDriver = "/proc/driver/nvidia";

std::string FileFor(const std::string& pattern, std::string_view number) {
  std::string file = pattern;
  if (const std::size_t star = file.find('*'); star != std::string::npos) file.replace(star, 1, number);
  return file;
}

// Creates a cgroup like that of a job with denied devices, and removes it again.
Status TryCgroup(const CgroupRoots& roots, bool uses_controller) {
  const std::string name = "try-" + std::to_string(::getpid());
  CgroupLimits limits;
  limits.closed_devices = {"/dev/null"};
  limits.uses_device_controller = uses_controller;
  DIVVY_TRY(const JobCgroup group, JobCgroup::Create(roots, "/divvy/try", name, limits));
  group.Remove();
  return {};
}

struct Choice {
  DeviceLock lock = DeviceLock::kNone;
  std::string refusal;  // Why none of the tried mechanisms works.
};

Choice Choose(std::string_view wish, const IsolationFacts& facts) {
  Choice choice;
  const auto refuse = [&](const std::string& why) { choice.refusal += (choice.refusal.empty() ? "" : "; ") + why; };
  if (wish == "auto" || wish == "cgroup") {
    if (facts.has_programs && facts.no_program.empty()) return {DeviceLock::kProgram, ""};
    if (facts.has_programs) refuse(facts.no_program);
    if (facts.has_controller && facts.no_controller.empty()) return {DeviceLock::kController, ""};
    if (facts.has_controller) refuse(facts.no_controller);
    if (choice.refusal.empty()) refuse(facts.is_root ? "no cgroup is writable" : "cgroups need root");
  }
  if (wish == "auto" || wish == "mounts") {
    if (facts.no_mounts.empty()) return {DeviceLock::kMounts, ""};
    refuse(facts.no_mounts);
  }
  return choice;
}

std::vector<std::string> FilesOf(const IsolationWishes& wishes, const std::vector<GpuFacts>& gpus, bool is_emulated) {
  if (is_emulated && wishes.device_files.empty()) return {};
  if (is_emulated) {
    std::vector<std::string> files;
    for (const GpuFacts& gpu : gpus) files.push_back(FileFor(wishes.device_files, std::to_string(gpu.index)));
    return files;
  }
  std::vector<std::string> files = NvidiaDeviceFiles(gpus, kDriver);
  if (wishes.device_files.empty()) return files;
  for (std::string& file : files)
    file = FileFor(wishes.device_files, file.substr(std::string_view("/dev/nvidia").size()));
  return files;
}

std::string Describe(const Isolation& here, const IsolationFacts& facts, const std::string& why_not) {
  std::string text = here.gpus;
  if (!why_not.empty()) text += ": " + why_not;
  if (here.lock == DeviceLock::kProgram) text += ", what is refused is counted";
  if (!facts.controllers.empty()) text += "; " + facts.controllers;
  if (here.wishes.has_own_tmp) text += "; private /tmp and /dev/shm";
  else if (here.wishes.has_own_shm) text += "; private /dev/shm";
  if (here.wishes.limits_cpus) {
    text += facts.limits_cpus ? "; CPU time limited to --cpus" : "; --cpus is advisory: no cgroup limits CPU time here";
  }
  if (!here.wishes.keeps_privileges) text += "; no new privileges";
  return text;
}

std::string NearCores(const Isolation& here, const std::vector<GpuFacts>& gpus, GpuSet mine) {
  std::set<int> cores;
  for (const int gpu : mine.ToVector()) {
    const int node = static_cast<std::size_t>(gpu) < gpus.size() ? gpus[static_cast<std::size_t>(gpu)].numa_node : -1;
    // A GPU whose NUMA node is unknown may be near any cores.
    if (node < 0 || static_cast<std::size_t>(node) >= here.node_cores.size()) return "";
    const std::vector<int>& near = here.node_cores[static_cast<std::size_t>(node)];
    cores.insert(near.begin(), near.end());
  }
  return CoreListText({cores.begin(), cores.end()});
}

}  // namespace

std::string_view Text(DeviceLock lock) {
  switch (lock) {
    case DeviceLock::kProgram:
      return "enforced (cgroup v2)";
    case DeviceLock::kController:
      return "enforced (cgroup v1)";
    case DeviceLock::kMounts:
      return "enforced (mount namespace)";
    case DeviceLock::kNone:
      break;
  }
  return "advisory (CUDA_VISIBLE_DEVICES)";
}

std::vector<std::string> NvidiaDeviceFiles(const std::vector<GpuFacts>& gpus, const std::string& proc) {
  std::vector<std::string> files;
  for (const GpuFacts& gpu : gpus) {
    // NVML writes the PCI domain with eight digits; the driver writes four, in lower case.
    std::string address = gpu.pci_address;
    std::transform(address.begin(), address.end(), address.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (address.find(':') == 8) address.erase(0, 4);
    std::ifstream about(proc + "/gpus/" + address + "/information");
    std::string number;
    for (std::string line; std::getline(about, line);) {
      if (line.starts_with("Device Minor:")) number = Trim(std::string_view(line).substr(line.find(':') + 1));
    }
    if (!ParseInteger(number)) return {};
    files.push_back("/dev/nvidia" + number);
  }
  return files;
}

IsolationFacts LearnIsolation() {
  IsolationFacts facts;
  const CgroupRoots roots = CgroupRoots::Find();
  facts.is_root = ::geteuid() == 0;
  facts.has_programs = roots.of(CgroupController::kDevices).has_value();
  facts.has_controller = roots.device_controller().has_value();
  if (facts.has_programs) {
    if (const Status works = TryCgroup(roots, false); !works) facts.no_program = works.error().message;
  }
  if (facts.has_controller) {
    if (const Status works = TryCgroup(roots, true); !works) facts.no_controller = works.error().message;
  }
  if (const Status works = CanMount(); !works) facts.no_mounts = works.error().message;
  facts.controllers = roots.Text();
  facts.limits_cpus = roots.of(CgroupController::kCpu).has_value();
  return facts;
}

std::string IsolationFactsText(const IsolationFacts& facts) {
  RecordWriter out;
  out.Add("root", facts.is_root ? 1 : 0);
  out.Add("programs", facts.has_programs ? 1 : 0);
  out.Add("no_program", facts.no_program);
  out.Add("controller", facts.has_controller ? 1 : 0);
  out.Add("no_controller", facts.no_controller);
  out.Add("no_mounts", facts.no_mounts);
  out.Add("controllers", facts.controllers);
  out.Add("limits_cpus", facts.limits_cpus ? 1 : 0);
  return out.text();
}

IsolationFacts ReadIsolationFacts(std::string_view text) {
  const RecordFields fields(text);
  IsolationFacts facts;
  facts.is_root = fields.Number("root") == 1;
  facts.has_programs = fields.Number("programs") == 1;
  facts.no_program = fields.Text("no_program");
  facts.has_controller = fields.Number("controller") == 1;
  facts.no_controller = fields.Text("no_controller");
  facts.no_mounts = fields.Text("no_mounts");
  facts.controllers = fields.Text("controllers");
  facts.limits_cpus = fields.Number("limits_cpus") == 1;
  return facts;
}

Result<Isolation> ChooseIsolation(const IsolationWishes& wishes, const std::vector<GpuFacts>& gpus, bool is_emulated,
                                  const IsolationFacts& facts) {
  Isolation here;
  here.wishes = wishes;
  if (wishes.keeps_near_gpus) here.node_cores = NumaNodeCores();
  std::string why_not;
  const std::vector<std::string> files = FilesOf(wishes, gpus, is_emulated);
  const bool is_wanted = wishes.devices != "off";
  if (is_wanted && !files.empty()) {
    const Choice choice = Choose(wishes.devices, facts);
    if (choice.lock == DeviceLock::kNone && wishes.devices != "auto") {
      return FailedPrecondition("[isolation] devices = \"" + wishes.devices +
                                "\" does not work here: " + choice.refusal + "; use \"auto\" for what works");
    }
    here.lock = choice.lock;
    why_not = choice.refusal;
    if (here.lock != DeviceLock::kNone) here.device_files = files;
  } else if (is_wanted && !gpus.empty() && !is_emulated) {
    why_not = "the driver does not list the GPUs' device files in " + kDriver;
  }
  if (wishes.is_required && here.lock == DeviceLock::kNone && !gpus.empty()) {
    std::string why = why_not;
    if (!is_wanted) why = "devices = \"off\"";
    else if (files.empty() && is_emulated) why = "emulated GPUs have no device files; set device_files";
    return FailedPrecondition("[isolation] require = true, but GPUs cannot be closed here: " + why +
                              "; fix that, or remove require from divvy.toml");
  }
  here.no_mounts = facts.no_mounts;
  if ((wishes.has_own_tmp || wishes.has_own_shm) && !here.no_mounts.empty()) {
    return FailedPrecondition(std::string("[isolation] private_") + (wishes.has_own_tmp ? "tmp" : "shm") +
                              " does not work here: " + here.no_mounts);
  }
  here.gpus = Text(here.lock);
  here.text = Describe(here, facts, why_not);
  return here;
}

JobIsolation IsolationOf(const Isolation& here, const std::vector<GpuFacts>& gpus, GpuSet mine, bool is_elastic) {
  JobIsolation job;
  job.processes = here.wishes.processes;
  job.has_own_tmp = here.wishes.has_own_tmp;
  job.has_own_shm = here.wishes.has_own_tmp || here.wishes.has_own_shm;
  job.keeps_privileges = here.wishes.keeps_privileges;
  if (is_elastic) return job;
  if (here.wishes.keeps_near_gpus) job.cores = NearCores(here, gpus, mine);
  for (std::size_t i = 0; i < here.device_files.size(); ++i) {
    if (!mine.Contains(static_cast<GpuIndex>(i))) job.closed_devices.push_back(here.device_files[i]);
  }
  if (!job.closed_devices.empty()) job.lock = here.lock;
  return job;
}

Status CheckRequired(const Isolation& here, std::string_view changes) {
  if (!here.wishes.is_required || changes.empty()) return {};
  return FailedPrecondition("[isolation] require = true, and which GPUs " + std::string(changes) +
                            " has changes while it runs, so that the others cannot be closed to it; ask for a fixed "
                            "number of whole GPUs");
}

void CloseOtherSlices(const Isolation& here, const std::vector<std::string>& own, JobIsolation& job,
                      const std::string& folder) {
  if (here.lock == DeviceLock::kNone || own.empty()) return;
  std::vector<std::string> others;
  std::error_code none;
  for (std::filesystem::directory_iterator file(folder, none), end; !none && file != end; file.increment(none)) {
    const std::string path = file->path().native();
    if (std::ranges::find(own, path) == own.end()) others.push_back(path);
  }
  std::ranges::sort(others);
  job.closed_devices.insert(job.closed_devices.end(), others.begin(), others.end());
  if (!job.closed_devices.empty()) job.lock = here.lock;
}

std::string VisibleDevices(const JobIsolation& job, GpuSet mine, GpuSet open) {
  std::string out;
  int number = 0;
  for (const int gpu : open.ToVector()) {
    const auto index = static_cast<GpuIndex>(gpu);
    if (mine.Contains(index))
      out += (out.empty() ? "" : ",") + std::to_string(job.lock == DeviceLock::kNone ? gpu : number);
    ++number;
  }
  return out;
}

Status SetOwnFolders(const Isolation& here, const OwnFolders& asked, JobIsolation& job) {
  const bool wants_any = asked.tmp.value_or(false) || asked.shm.value_or(false);
  if (wants_any && !here.no_mounts.empty()) {
    return FailedPrecondition(std::string(asked.tmp.value_or(false) ? "--private-tmp" : "--private-shm") +
                              " does not work on this node: " + here.no_mounts);
  }
  job.has_own_tmp = asked.tmp.value_or(here.wishes.has_own_tmp);
  job.has_own_shm = asked.shm.value_or(job.has_own_tmp || here.wishes.has_own_shm);
  return {};
}

}  // namespace divvy
