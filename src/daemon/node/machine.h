// Functions that daemon and agent share: facts about the machine that they run on, and its files.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/machine_facts.h"
#include "platform/gpu/gpu_probe.h"
#include "platform/os/runtime_paths.h"

namespace divvy::dialect {
struct Config;
}

namespace divvy {

/// Creates the directory and all its parents; the last one gets `mode`. An existing directory is no error.
Status MakeDirectory(const std::string& path, mode_t mode);
/// Returns the file's content, or kNotFound with the system's reason.
Result<std::string> ReadWhole(const std::string& path);
/// Reads divvy.toml; returns the defaults if it does not exist. Fails with kPermissionDenied if it exists and cannot be
/// read: it may forbid something, so the defaults must not replace it.
Result<dialect::Config> LoadConfig(const RuntimePaths& places);
/// Replaces the file atomically and durably, with mode 0600.
Status ReplaceFile(const std::string& path, std::string_view text);
/// Sets up SIGXFSZ and SIGPIPE for a daemon or agent, so that neither kills it: a write beyond the file size limit
/// fails like one to a full disk, and a write to a closed connection fails. Programs that jobs run start with the
/// default action of each caught signal; only an ignored one is inherited.
void SetServiceSignals();
/// Returns an open lock file that no other daemon or agent holds; kAlreadyExists names the pid of the holder. If the
/// holder was just killed, waits up to 2 s for it.
Result<int> LockFile(const std::string& path, std::string_view what);

/// Ensures that daemon and agent do not share a folder, since both would give out the machine's GPUs. Fails with
/// kAlreadyExists and a remedy if the other one (`what`: "daemon" or "agent"), which owns the lock file `path`, is
/// alive. Requires: the caller holds its own lock.
Status ForbidBeside(const std::string& path, std::string_view what);

std::uint64_t RandomSeed();
/// The path of this executable. After an upgrade the new version has this path.
std::string OwnPath();
/// The host name up to its first dot.
std::string HostName();
/// Raises the limit on open files: reading CPU time and files of thousands of jobs takes more descriptors than a
/// shell's usual limit.
void RaiseFileLimit();
/// Returns the kernel's id of the present boot, or "" if it cannot be read.
std::string BootId(const RuntimePaths& places);

/// Where this node's GPUs come from (the driver or emulation), and the probe that reads their state. Without a probe
/// the node has no GPUs; everything else works.
struct GpuSource {
  std::unique_ptr<GpuProbe> probe;
  std::vector<GpuFacts> gpus;
  std::string text;
  std::string library;  // The path of the NVML library, as OpenNvml takes it.
  // Emulated GPUs only: the folder of their libraries, and the variables (NAME=value) by which programs find them.
  std::string libraries;
  std::vector<std::string> environment;
  MigUse mig = MigUse::kUse;
};
/// `emulate` is a GPU description or a file with one; empty: use the driver. `machine` makes the UUIDs of emulated GPUs
/// unique to that node name; empty: use them as described. `runs` is the folder of runs, where divvy records the MIG
/// instances that it has created.
struct GpuWishes {
  std::string emulate;
  MigUse mig = MigUse::kUse;
  std::string runs;
  std::string machine = "";
  /// The folder of the emulated GPUs if they were already created (PrepareEmulation); empty: they are created here.
  std::string emulation = "";
};
/// Creates emulated GPUs in `folder` and returns the path of their NVML library. `emulate` and `machine` are as in
/// GpuWishes.
Result<std::string> PrepareEmulation(const std::string& emulate, const std::string& machine, const std::string& folder);
Result<GpuSource> OpenGpus(const GpuWishes& wishes, const RuntimePaths& places);

/// Returns the folder in which the keeper of shared GPUs has its files, given the folder of runs.
std::string KeeperDirectory(const std::string& runs);

/// Collects CPUs, memory, GPUs and labels, as the system reports them.
MachineFacts LearnMachine(const GpuSource& gpus, const RuntimePaths& places);

}  // namespace divvy
