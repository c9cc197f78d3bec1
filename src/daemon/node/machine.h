// What daemon and agent both find out about the machine they are on, and do with its files.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/machine_facts.h"
#include "platform/gpu/gpu_probe.h"
#include "platform/os/places.h"

namespace divvy::dialect {
struct Config;
}

namespace divvy {

/// With all above it; the last one gets `mode`. Fine when it is there already.
Status MakeDirectory(const std::string& path, mode_t mode);
/// kNotFound with the system's reason.
Result<std::string> ReadWhole(const std::string& path);
/// divvy.toml; the defaults where there is none. kPermissionDenied where it is there and cannot be read: it may forbid
/// something, so the defaults must not take its place.
Result<dialect::Config> LoadConfig(const Places& places);
/// In place of what was there, whole or not at all, and on disk when it returns; for its owner alone.
Status ReplaceFile(const std::string& path, std::string_view text);
/// Of a process that stays: a file that may not grow any more is a full disk, and a peer that is gone an error, neither
/// the end of us. A caught signal, other than an ignored one, is itself again in the programs that jobs run.
void SetServiceSignals();
/// An open lock file that no other daemon or agent has; kAlreadyExists names the pid of the one that does. Waits for
/// one that was just killed, 2 s at most.
Result<int> LockFile(const std::string& path, std::string_view what);

/// Daemon and agent never share a folder: both would give out the machine's GPUs. kAlreadyExists with the repair where
/// the other one (`what`: "daemon" or "agent"), whose lock file that is, lives. Requires: the caller has its own lock.
Status ForbidBeside(const std::string& path, std::string_view what);

std::uint64_t RandomSeed();
/// Where this executable is; after an upgrade the new one has its place.
std::string OwnPath();
/// Up to the first dot.
std::string HostName();
/// The processor time and files of thousands of jobs at once take more descriptors than a shell's usual limit.
void RaiseFileLimit();
/// "" where it cannot be read.
std::string BootId(const Places& places);

/// Where the GPUs come from, in words, and the probe; without one there are no GPUs and everything else works.
struct GpuSource {
  std::unique_ptr<GpuProbe> probe;
  std::vector<GpuFacts> gpus;
  std::string text;
  // Of stand-ins: where their libraries are, and what they find them by (NAME=value).
  std::string library;  // NVML's, as OpenNvml takes it.
  std::string libraries;
  std::vector<std::string> environment;
  MigUse mig = MigUse::kUse;
};
/// `emulate`: a specification or a file; empty: the driver's. `machine`: stand-in GPUs get UUIDs of their own under
/// that name, for two machines must not have the same; empty: as described. `runs`: the folder of runs, in which it is
/// kept what divvy itself has cut out of GPUs.
struct GpuWishes {
  std::string emulate;
  MigUse mig = MigUse::kUse;
  std::string runs;
  std::string machine = "";
  /// The folder of the stand-in GPUs, where somebody else has made them (PrepareEmulation); empty: they are made here.
  std::string emulation = "";
};
/// Makes stand-in GPUs in `folder`; returns the path of their NVML library. `emulate`, `machine`: as above.
Result<std::string> PrepareEmulation(const std::string& emulate, const std::string& machine, const std::string& folder);
Result<GpuSource> OpenGpus(const GpuWishes& wishes, const Places& places);

/// Of a folder of runs: where the keeper of its shared GPUs has what is its own.
std::string KeeperDirectory(const std::string& runs);

/// CPUs, memory, GPUs, and labels: what the system says of itself.
MachineFacts LearnMachine(const GpuSource& gpus, const Places& places);

}  // namespace divvy
