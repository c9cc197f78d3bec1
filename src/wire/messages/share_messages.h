// The messages between a node (the daemon's, or an agent's) and the keeper of its shared GPUs (src/keeper). Each
// message is one JSON object per line on a Unix socket. Their fields are described like those of all messages
// (share_messages_describe.h). docs/sharing.md explains what the keeper does.
//
// The node sends requests (KeeperRequest). The keeper answers each one once, by its id, in any order
// (KeeperLine::answer). The keeper also sends lines on its own. A request states the desired result, so it can be
// repeated. When a keeper has died, the node sends everything to its successor again: hello, then add for each existing
// tenant. The successor reads the remaining state from its folder. Fields are added and never renamed, and unknown
// fields are ignored. Times are by the node's clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy::wire {

/// Incremented when the type of a field changes. Version 2: KeeperAdd::slice has the position of the instance, not only
/// its profile. Version 3: jobs with whole GPUs are tenants that can be displaced (KeeperAdd::is_whole).
inline constexpr int kKeeperVersion = 3;
/// The version of a peer that sends none: version 1 had no such field.
inline constexpr int kFirstKeeperVersion = 1;
/// The socket's name in the keeper's folder.
inline constexpr std::string_view kKeeperSocket = "keeper.sock";
/// Suffix of the tenant records in the same folder. A record has what a successor needs. It is kept until the keeper
/// gets a KeeperRemove for the tenant.
inline constexpr std::string_view kTenantRecordEnd = ".tenant";
inline constexpr std::size_t kKeeperLineBytes = std::size_t{4} << 20;

// --- Requests, to the keeper: an id, and one of the fields -----------------------------------------------------------

/// A GPU of the node. `usable`: the memory that tenants may use together, without what the driver needs for itself.
struct KeeperGpu {
  GpuIndex index = 0;
  std::string uuid;
  Bytes memory;
  Bytes usable;              // 0: all of `memory`.
  bool is_withheld = false;  // Not available to tenants now: restricted, or used by others. Its tenants are moved away
                             // if possible.
  GpuIndex kind = 0;       // GPUs of the same kind have the same number, the lowest index among them. Tenants move only
                           // within a kind.
  std::string why;         // Why it is withheld or broken; completes a sentence about the GPU: "is restricted".
  bool is_broken = false;  // The GPU is unusable, and no tenant can be moved away from it.
};

/// The first request on a connection. The answer (`hello`) has the keeper's capabilities.
struct KeeperHello {
  int version = kFirstKeeperVersion;  // The sender's version.
  std::vector<KeeperGpu> gpus;        // All GPUs of the node.
  std::vector<JobId> whole_jobs;      // Jobs that hold whole GPUs or wait for them. The keeper releases the GPUs of all
                                      // others.
  std::vector<GpuSet> whole_gpus;     // The GPUs of each of `whole_jobs`. Empty if the node sends only their ids.
  bool may_switch_mig = false;        // The keeper may switch the MIG mode of an idle GPU on and off.
};

/// A tenant's guarantee (request) and maximum (limit), the same on each of its GPUs.
struct ShareTerms {
  Bytes memory_request;
  Bytes memory_limit;        // Never below the request.
  GpuShare compute_request;  // As a share of the GPU's time.
  GpuShare compute_limit;

  friend bool operator==(const ShareTerms&, const ShareTerms&) = default;
};

/// A job that holds GPU fractions is about to start on this node. Answered by `added`. For an existing tenant (same job
/// and attempt) it updates the terms, and the answer is the same as before.
struct KeeperAdd {
  JobId job;
  std::uint32_t attempt = 0;
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  std::string owner;       // The user's name, for messages to people.
  std::vector<int> paper;  // The GPUs that the plan gives it, in the order of its devices.
  ShareTerms share;
  Duration idle_park{0};  // Parks the tenant after this time without work on its GPUs. 0: never.
  int priority = 0;
  bool is_interactive = false;  // A person waits for it, so it wakes first.
  bool may_requeue = false;     // As the last resort, the job may be requeued.
  GpuSlice slice;               // The MIG instance that the job gets instead of a fraction. None: it gets fractions.
  bool uses_mps = false;        // Limits are enforced by MPS, because the job requested it.
  bool is_whole = false;        // The GPUs are its alone: nothing is limited or lent, and it leaves them only by
                                // KeeperDisplace. A repeated add changes neither its terms nor its GPUs.
};

/// The job has ended, or never started. The keeper deletes its folder.
struct KeeperRemove {
  JobId job;
  std::uint32_t attempt = 0;
};

/// A job with whole GPUs is about to start on them, so all tenants must leave. Answered when the GPUs are empty. If a
/// tenant cannot be moved, the answer is an error that names it and says why; then nothing has changed.
struct KeeperAcquireExclusive {
  JobId job;
  GpuSet gpus;
};
/// The job with whole GPUs has ended.
struct KeeperReleaseExclusive {
  JobId job;
};

struct KeeperResize {
  JobId job;
  ShareTerms share;
  std::vector<int> paper;  // The GPUs that the plan gives it from now on. Empty: unchanged.
};
/// Moves the tenant's memory to the host. Its next call that needs the GPU wakes it. Answered when it is parked.
struct KeeperPark {
  JobId job;
};
/// Answered when the tenant is back on a GPU.
struct KeeperWake {
  JobId job;
};
/// Moves the tenant's devices, in order, to these GPUs. Answered when they are there.
struct KeeperMove {
  JobId job;
  std::vector<int> to;
};
/// Parks a tenant with whole GPUs, and releases them: others may have them, and only KeeperReturn brings it back.
/// Answered when it is on the host. If it cannot be parked, the answer is an error, and it keeps its GPUs.
struct KeeperDisplace {
  JobId job;
  std::uint32_t attempt = 0;
};
/// The displaced tenant takes these GPUs, in the order of its devices, and wakes there once others have left them. Its
/// processes must not be stopped. Answered when it is there, or with an error when it could not be woken; it is then
/// displaced as before. While it has not left the host, another KeeperReturn changes the GPUs.
struct KeeperReturn {
  JobId job;
  std::uint32_t attempt = 0;
  std::vector<int> to;
};
/// Updates GPUs of the node. GPUs that are not listed stay as they were.
struct KeeperGpusChanged {
  std::vector<KeeperGpu> gpus;
};
/// A process on a GPU that belongs to a tenant. The node knows this from the process tree.
struct KeeperProcess {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  JobId job;
  std::uint32_t attempt = 0;

  friend bool operator==(const KeeperProcess&, const KeeperProcess&) = default;
};
/// All tenant processes seen last. As far as the node knows, other processes belong to no tenant.
struct KeeperProcesses {
  std::vector<KeeperProcess> processes;
};
/// Answered by `state`.
struct KeeperStateAsked {
  bool is_wanted = true;
};
/// No node will connect again: the keeper exits when its last tenant is gone.
struct KeeperLeave {
  bool is_final = true;
};

struct KeeperRequest {
  std::uint64_t id = 0;  // Chosen by the sender; the answer repeats it.
  std::optional<KeeperHello> hello;
  std::optional<KeeperAdd> add;
  std::optional<KeeperRemove> remove;
  std::optional<KeeperAcquireExclusive> take_whole;
  std::optional<KeeperReleaseExclusive> give_whole;
  std::optional<KeeperResize> resize;
  std::optional<KeeperPark> park;
  std::optional<KeeperWake> wake;
  std::optional<KeeperMove> move;
  std::optional<KeeperGpusChanged> gpus;
  std::optional<KeeperProcesses> processes;
  std::optional<KeeperStateAsked> state;
  std::optional<KeeperLeave> leave;
  std::optional<KeeperDisplace> displace;
  std::optional<KeeperReturn> back;  // "return" is a C++ keyword.
};

// --- Lines from the keeper: exactly one of the fields is set -------------------------------------------------------

enum class ShareState { kRunning, kIdle, kParking, kParked, kWaking, kMoving };

/// One device of a tenant. Byte counts are totals over its processes.
struct KeptShare {
  int paper = 0;             // The GPU that the plan gives it.
  int gpu = 0;               // The GPU that it is on, or was on when it was parked.
  Bytes request;             // Its guaranteed memory.
  Bytes limit;               // The most memory that it can ever get.
  Bytes ceiling;             // The most memory that it may use now.
  Bytes used;                // The memory that it uses, including the driver's overhead for it (contexts, code).
  Bytes borrowed;            // The part of `used` that exceeds its request.
  GpuShare compute;          // Its share of the device's time in the last second.
  GpuShare compute_request;  // Its guaranteed share of the device's time.
  GpuShare compute_limit;
  bool is_compute_unknown = false;  // `compute` is not measured, as for a slice.
};

/// A tenant left its GPUs, or arrived on some.
struct KeptPassage {
  Time at;
  bool is_parked = false;
  std::vector<int> gpus;           // The GPUs that it is on since then, or was on before it left.
  std::vector<std::string> words;  // KeptTenant::words at that moment.
};

/// KeptTenant::mechanism of a tenant that has a slice.
inline constexpr std::string_view kByMig = "enforced by MIG";

struct KeptTenant {
  JobId job;
  std::uint32_t attempt = 0;
  ShareState state = ShareState::kRunning;
  std::vector<KeptShare> shares;
  int processes = 0;      // Number of its processes that have connected.
  std::string mechanism;  // Its enforcement: "enforced by interposer" | "enforced by MIG" | "MPS" | "advisory".
  bool is_movable = false;
  std::string unmovable;              // Why it cannot be moved: "it uses NCCL".
  std::vector<std::int64_t> escaped;  // Processes of the job that use its GPUs without the library, as pids of the
                                      // node.
  std::string trouble;                // Its last error. Empty: none.
  Duration idle{0};                   // How long its devices have been idle.
  std::vector<std::string> words;     // Notes about its state: "borrows 12 GiB", "waits for room on a GPU".
  std::vector<KeptPassage> passages;  // Its last moves, oldest first. States that follow each other quickly are merged.
  bool is_whole = false;              // As in its KeeperAdd.
  bool is_displaced = false;          // It has no GPU of its own until a KeeperReturn. Also while it is still parking.
  std::string unparkable;             // Why it cannot be parked now. Empty: it can.
  std::string displacement_failure;   // Why its last displacement or return failed. Empty: it did not.
};

/// The capabilities of a sharing mechanism on this node. If it is unavailable, `reason` says why.
struct KeptMechanism {
  std::string name;  // "interposer" | "checkpoint" | "hybrid" | "mig" | "mps"; with " (emulated)" if it is.
  bool is_there = false;
  std::string reason;  // "no driver library: libcuda.so.1 is not there"
  bool can_limit = false;
  bool can_soft_limit = false;
  bool can_share_compute = false;
  bool can_park = false;
  bool can_move = false;
  bool can_resize = false;
};

/// A GPU that cannot be used as intended.
struct KeptGpu {
  GpuIndex index = 0;
  std::string trouble;    // The problem and its remedy: "the MIG instance of job 5 cannot be destroyed: ...".
  bool is_stuck = false;  // No new work can use it, because an instance is left over. False: only its MIG mode is
                          // wrong.
};
/// A job that still waits for its GPUs or its slice.
struct KeptWait {
  JobId job;
  std::string why;
  Time since = kNoTime;
  Duration bound{0};  // Upper bound of the wait since `since`, while tenants leave its GPUs. 0: unknown.
};

/// The complete state of a keeper.
struct KeeperState {
  std::vector<KeptTenant> tenants;
  std::vector<KeptMechanism> mechanisms;
  std::uint64_t moves = 0;  // Since this keeper started.
  std::uint64_t parks = 0;
  std::vector<KeptGpu> gpus;  // GPUs that have a problem.
  std::vector<KeptWait> waits;
  std::vector<std::string> troubles;  // Problems of neither a GPU nor a tenant: "PATH could not be read, and was put
                                      // aside".
};

struct KeeperWelcome {
  int version = kFirstKeeperVersion;  // The sender's version.
  std::int64_t pid = 0;
  std::vector<KeptMechanism> mechanisms;
};
struct KeeperAdded {
  std::vector<int> gpus;                  // The GPUs that it starts on, in the order of its devices.
  std::vector<std::string> uuids;         // The UUIDs of `gpus`.
  GpuSet reachable;                       // GPUs that it may be moved to: the job needs access to them.
  std::string folder;                     // The tenant's folder. A container needs it mounted at the same path.
  std::vector<std::string> environment;   // NAME=value, for every process of the job.
  std::vector<std::string> device_files;  // Further device files that the job needs where devices are isolated:
                                          // "/dev/nvidia-caps/nvidia-cap21".
};
/// All tenants have left the GPUs of a job that holds them whole.
struct KeeperRoom {
  Duration took{0};
  Duration bound{0};  // The upper bound that was predicted for `took`. 0: none.
};
struct KeeperAnswer {
  std::uint64_t id = 0;
  std::string error;  // Empty: the request succeeded.
  std::optional<KeeperWelcome> hello;
  std::optional<KeeperAdded> added;
  std::optional<KeeperRoom> room;  // Answers take_whole.
  std::optional<KeeperState> state;
};
/// The last resort: requeues `job`, because there is no other way to give `owner` its guaranteed memory. Only for jobs
/// that may be requeued.
struct KeeperRequeue {
  JobId job;
  std::uint32_t attempt = 0;
  JobId owner;  // The job that needs its memory back.
  Bytes bytes;  // How many bytes `job` has borrowed from it.
};
struct KeeperLine {
  std::optional<KeeperAnswer> answer;
  std::optional<KeeperState> state;  // The state has changed. Sent at most five times a second.
  std::optional<KeeperRequeue> requeue;
};

}  // namespace divvy::wire
