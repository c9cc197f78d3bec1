// What a node (the daemon's, or an agent's) and the keeper of its shared GPUs say to each other: one JSON object a line
// on a Unix socket, described like all messages (share_messages_describe.h). The keeper is src/keeper; docs/sharing.md
// tells what it does.
//
// The node asks (KeeperRequest), and each request is answered once, by its id, in any order (KeeperLine::answer); the
// keeper also tells things unasked. Requests say what shall be, and so may be said again: after a keeper died, its
// successor is told all of it once more (hello, then add for each tenant that is there), and finds in its folder what
// it needs of before. Fields are added, never renamed; one that is not known is ignored. Times are the node's clock's.
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

/// Raised where the type of a field changes. Since 2: KeeperAdd::slice says where the instance lies, and not its
/// profile alone.
inline constexpr int kKeeperVersion = 2;
/// Of who says none: the first did not.
inline constexpr int kFirstKeeperVersion = 1;
/// In the folder that the keeper was given.
inline constexpr std::string_view kKeeperSocket = "keeper.sock";
/// Beside it: what a successor needs of each tenant, until the keeper is told that it is over.
inline constexpr std::string_view kTenantRecordEnd = ".tenant";
inline constexpr std::size_t kKeeperLineBytes = std::size_t{4} << 20;

// --- Requests, to the keeper: an id, and one of the fields -----------------------------------------------------------

/// A GPU of the node. `usable`: what tenants may have of it together, so without what the driver itself needs.
struct KeeperGpu {
  GpuIndex index = 0;
  std::string uuid;
  Bytes memory;
  Bytes usable;              // 0: all of `memory`.
  bool is_withheld = false;  // Not for tenants now: restricted, in use by others. Those on it leave if they can.
  GpuIndex kind = 0;  // GPUs of one kind have the same number (the lowest index of them): tenants move among these.
  std::string why;    // It is withheld or broken: "is restricted", as the end of a sentence about it.
  bool is_broken = false;  // Nobody can use it, nor be moved away from it.
};

/// First on a connection. Answered by hello: what this keeper can do.
struct KeeperHello {
  int version = kFirstKeeperVersion;  // Of who says it.
  std::vector<KeeperGpu> gpus;        // All of the node.
  std::vector<JobId> whole_jobs;      // That have whole GPUs, or wait for them: all others have given theirs up.
  std::vector<GpuSet> whole_gpus;     // Of each of these; empty: it says no more than their jobs.
  bool may_switch_mig = false;        // An idle GPU's MIG mode, for instances and back.
};

/// What a tenant has a right to, and what it gets at most: of each of its GPUs the same.
struct ShareTerms {
  Bytes memory_request;
  Bytes memory_limit;        // Never below the request.
  GpuShare compute_request;  // Of the device's time.
  GpuShare compute_limit;

  friend bool operator==(const ShareTerms&, const ShareTerms&) = default;
};

/// A job that has shares is about to start on this node. Answered by `added`. For one who is there already (same job
/// and attempt): its terms are now these, and the answer is as it was.
struct KeeperAdd {
  JobId job;
  std::uint32_t attempt = 0;
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  std::string owner;       // The user's name, for what is said to people.
  std::vector<int> paper;  // The GPUs that the plan gave it; its devices, in this order.
  ShareTerms share;
  Duration idle_park{0};  // Parked after so long without work on its GPUs; 0: never.
  int priority = 0;
  bool is_interactive = false;  // Has a person in front of it: goes first when it wakes.
  bool may_requeue = false;     // The last rung may be taken with it.
  GpuSlice slice;               // Of a GPU that the hardware divides: just this instance; none: shares.
  bool uses_mps = false;        // Enforced by MPS, which somebody asked for.
};

/// The job is over, or never began. Its folder goes.
struct KeeperRemove {
  JobId job;
  std::uint32_t attempt = 0;
};

/// A job with whole GPUs is about to start on these, and nobody else may be on them. Answered when they are empty, or
/// by an error: what could not be moved, and why. Then all is as it was.
struct KeeperTakeWhole {
  JobId job;
  GpuSet gpus;
};
/// It is over.
struct KeeperGiveWhole {
  JobId job;
};

struct KeeperResize {
  JobId job;
  ShareTerms share;
  std::vector<int> paper;  // Where the plan counts it from now on; empty: where it did.
};
/// Its memory goes to the host; its next call that needs the GPU brings it back. Answered when it is parked.
struct KeeperPark {
  JobId job;
};
/// Answered when it is back.
struct KeeperWake {
  JobId job;
};
/// Its devices, in order, are to be on these GPUs. Answered when they are.
struct KeeperMove {
  JobId job;
  std::vector<int> to;
};
/// The node's GPUs have changed: as in hello, those that are not named stay as they were.
struct KeeperGpusChanged {
  std::vector<KeeperGpu> gpus;
};
/// A process on a GPU that the node knows to be a tenant's, by the tree of processes that it descends from.
struct KeeperProcess {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  JobId job;
  std::uint32_t attempt = 0;

  friend bool operator==(const KeeperProcess&, const KeeperProcess&) = default;
};
/// All of them, as they were seen last: those that are not named are of no tenant, for all that the node knows.
struct KeeperProcesses {
  std::vector<KeeperProcess> processes;
};
/// Answered by `state`.
struct KeeperStateAsked {
  bool is_wanted = true;
};
/// Nobody will dial again: the keeper ends when its last tenant is gone.
struct KeeperLeave {
  bool is_final = true;
};

struct KeeperRequest {
  std::uint64_t id = 0;  // The asker's own, for the answer.
  std::optional<KeeperHello> hello;
  std::optional<KeeperAdd> add;
  std::optional<KeeperRemove> remove;
  std::optional<KeeperTakeWhole> take_whole;
  std::optional<KeeperGiveWhole> give_whole;
  std::optional<KeeperResize> resize;
  std::optional<KeeperPark> park;
  std::optional<KeeperWake> wake;
  std::optional<KeeperMove> move;
  std::optional<KeeperGpusChanged> gpus;
  std::optional<KeeperProcesses> processes;
  std::optional<KeeperStateAsked> state;
  std::optional<KeeperLeave> leave;
};

// --- What the keeper says: one of the fields a line ------------------------------------------------------------------

enum class ShareState { kRunning, kIdle, kParking, kParked, kWaking, kMoving };

/// One device of a tenant. Bytes are of its processes together.
struct KeptShare {
  int paper = 0;             // GPU of the plan.
  int gpu = 0;               // Where it is, or was when it was parked.
  Bytes request;             // Its right.
  Bytes limit;               // What it gets at most.
  Bytes ceiling;             // What it may have now.
  Bytes used;                // What it has, what the driver needs for it (contexts, code) included.
  Bytes borrowed;            // Of that, above its request.
  GpuShare compute;          // Its part of the device's time in the last second.
  GpuShare compute_request;  // Its right.
  GpuShare compute_limit;
  bool is_compute_unknown = false;  // Nobody measures `compute`, as of a slice.
};

/// A tenant that left its GPUs, or came to some.
struct KeptPassage {
  Time at;
  bool is_parked = false;
  std::vector<int> gpus;           // Where it is since, or was before it left.
  std::vector<std::string> words;  // As of KeptTenant, at that moment.
};

/// KeptTenant::mechanism of who has a slice.
inline constexpr std::string_view kByMig = "enforced by MIG";

struct KeptTenant {
  JobId job;
  std::uint32_t attempt = 0;
  ShareState state = ShareState::kRunning;
  std::vector<KeptShare> shares;
  int processes = 0;  // That have said hello.
  std::string
      mechanism;  // What holds it to its terms: "enforced by interposer" | "enforced by MIG" | "MPS" | "advisory".
  bool is_movable = false;
  std::string unmovable;              // Why not: "it uses NCCL".
  std::vector<std::int64_t> escaped;  // Processes of the job that use its GPUs past the library. Pids of the node.
  std::string trouble;                // What went wrong with it last; empty: nothing has.
  Duration idle{0};                   // For how long its devices have done nothing for it.
  std::vector<std::string> words;     // What is to be said of where it is: "borrows 12 GiB", "waits for room on a GPU".
  std::vector<KeptPassage>
      passages;  // The last ones, oldest first: states that follow each other quickly are not shown.
};

/// What a mechanism can do on this node. Those that are not there say why.
struct KeptMechanism {
  std::string name;  // "interposer" | "checkpoint" | "hybrid" | "mig" | "mps"; with " (emulated)" where it is.
  bool is_there = false;
  std::string reason;  // "no driver library: libcuda.so.1 is not there"
  bool can_limit = false;
  bool can_soft_limit = false;
  bool can_share_compute = false;
  bool can_park = false;
  bool can_move = false;
  bool can_resize = false;
};

/// A GPU that cannot be had as it should be.
struct KeptGpu {
  GpuIndex index = 0;
  std::string trouble;    // What is wrong and what helps: "the MIG instance of job 5 cannot be unmade: ...".
  bool is_stuck = false;  // Nothing new can be had of it: an instance is left. Else it is its MIG mode alone.
};
/// A job that has been asked for, and has not got its GPUs or its slice yet.
struct KeptWait {
  JobId job;
  std::string why;
  Time since = kNoTime;
  Duration bound{
      0};  // For so long at most, since then, where that can be said: tenants leave GPUs for it. 0: it cannot.
};

/// Everything there is to show.
struct KeeperState {
  std::vector<KeptTenant> tenants;
  std::vector<KeptMechanism> mechanisms;
  std::uint64_t moves = 0;  // Since this keeper began.
  std::uint64_t parks = 0;
  std::vector<KeptGpu> gpus;  // That are in trouble.
  std::vector<KeptWait> waits;
  std::vector<std::string> troubles;  // Of no GPU and no tenant: "PATH could not be read, and was put aside".
};

struct KeeperWelcome {
  int version = kFirstKeeperVersion;  // Of who says it.
  std::int64_t pid = 0;
  std::vector<KeptMechanism> mechanisms;
};
struct KeeperAdded {
  std::vector<int> gpus;                 // Where it begins, by its devices.
  std::vector<std::string> uuids;        // Of these.
  GpuSet reachable;                      // GPUs that it may be moved to: what is to be open to the job.
  std::string folder;                    // Its own; a container has to be given it at the same path.
  std::vector<std::string> environment;  // NAME=value, for every process of the job.
  std::vector<std::string>
      device_files;  // Beside its GPUs', where devices are locked: "/dev/nvidia-caps/nvidia-cap21".
};
/// The GPUs of a job that has them whole are empty of tenants.
struct KeeperRoom {
  Duration took{0};
  Duration bound{0};  // As it was when it was asked for: so long it takes at most. 0: none could be said.
};
struct KeeperAnswer {
  std::uint64_t id = 0;
  std::string error;  // Empty: it was done.
  std::optional<KeeperWelcome> hello;
  std::optional<KeeperAdded> added;
  std::optional<KeeperRoom> room;  // Of take_whole.
  std::optional<KeeperState> state;
};
/// The last rung: no other way is left to give `owner` what is its right. Only for those who may be requeued.
struct KeeperRequeue {
  JobId job;
  std::uint32_t attempt = 0;
  JobId owner;  // For whom.
  Bytes bytes;  // So many that `job` has borrowed.
};
struct KeeperLine {
  std::optional<KeeperAnswer> answer;
  std::optional<KeeperState> state;  // Something has changed; at most five times a second.
  std::optional<KeeperRequeue> requeue;
};

/// Without the line feed; only what differs from the defaults.
template <typename Message>
std::string EncodeShare(const Message& message);
/// KeeperRequest and KeeperLine. Fails with kInvalidArgument and every wrong field by its path.
template <typename Message>
Result<Message> DecodeShare(std::string_view text);

}  // namespace divvy::wire
