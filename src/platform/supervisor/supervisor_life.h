// One job's life under its supervisor, or under the guard that took over. docs/supervisor.md describes it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/isolation/job_cgroup.h"
#include "platform/isolation/job_mounts.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/pty.h"
#include "platform/supervisor/launch_request.h"
#include "platform/supervisor/output_holder.h"
#include "platform/supervisor/run_record.h"
#include "platform/supervisor/supervisor_control.h"
#include "platform/supervisor/supervisor_job.h"
#include "platform/supervisor/supervisor_lease.h"
#include "platform/supervisor/supervisor_setup.h"
#include "platform/supervisor/supervisor_watch.h"
#include "platform/users/open_as_user.h"
#include "platform/users/passed_stream.h"
#include "platform/users/user_identity.h"
#include "platform/users/user_limits.h"

namespace divvy {

// The state that a supervisor keeps from one job to the next.
struct Station {
  SupervisorSetup setup;
  int channel = -1;  // -1 in a guard.
  SupervisorWatch* watch = nullptr;
  ProcessIdentity guard;  // pid 0: none.
  ProcessIdentity self;
  Descriptor control;
  std::string address;  // The address of `control`.
  UserGroups groups;
  UserLimits limits;
};

class Supervisor {
 public:
  Supervisor(LaunchRequest request, Station& station)
      : request_(std::move(request)),
        station_(station),
        watch_(*station.watch),
        changes_user_(::geteuid() == 0 && request_.uid > 0) {
    // The streams are closed in any case, so that their readers see the end.
    for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i].Reset(request_.streams[i]);
    for (std::size_t i = 0; i < read_ends_.size(); ++i) read_ends_[i].Reset(request_.held[i]);
  }

  /// Starts and watches the job. Returns when the job is over and its end was reported.
  void Run();
  /// Watches the job instead of its supervisor, which was killed. Called in the guard, whose children the job's
  /// processes are now. Returns when the job is over and its end was reported.
  void TakeOver(const ProcessIdentity& supervisor);

 private:
  // Before the start. Functions that return false have set exit_.failure.
  bool Fail(std::string text, int code = 126);
  /// The user with whose rights files are created.
  FileOwner Owner() const;
  /// Waits for the directories of the job's files, at most for request_.directory_timeout. Handles commands meanwhile.
  bool AwaitDirectories();
  bool PrepareFiles(Descriptor& log);
  bool OpenTerminal(Descriptor log);
  Status CheckStream(int fd, StreamUse use, const char* name) const;
  Status CheckTerminalStreams(int in, int out) const;
  bool Isolate(MountPlan& mounts);
  bool Start();
  void PassStreams();

  // For a node allocation of a gang (node_allocation_start.h).
  bool is_part() const { return record_.is_part; }
  std::string StepsPath() const;
  Descriptor OfferKey();
  void HearAllocation();
  void LookAtAllocation();
  void Go();
  /// Tells the first process that it may start, and starts the time limit.
  void LetGo();

  // Used in a guard.
  bool is_guard() const { return station_.channel < 0; }
  bool FindRecord(const ProcessIdentity& supervisor);

  // Used while the job runs.
  void Watch();
  bool Reap();
  Duration NextDue() const;
  void OnTimers(Duration now);
  void OnCommand(SupervisorCommand& command);
  void BeginStop(int signal, Duration grace);
  void SetTimeLimit(Duration limit);
  void Attach(std::uint64_t attachment, std::vector<ForeignDescriptor>& descriptors);
  void HoldOutputs();
  void CallStep(int socket, bool stops_only);
  /// Starts a program like one of the job's own: as its user, in its cgroup and mounts. `input`: standard input; -1:
  /// none. The other streams are /dev/null.
  StartedJob StartInside(const JobProgram& program, const std::string& directory, int input);
  /// Appends a line about the time limit to the file that gets the job's errors, as Slurm does.
  void NoteTimeLimit();
  /// Signals the tasks of the job's steps, or if no step runs, all processes but the first one.
  void SignalSteps(int signal);
  void LookAtLease();

  void Finish();
  void WriteAbout();
  void WriteExit();
  void SayIdle();

  LaunchRequest request_;
  std::array<ForeignDescriptor, 3> streams_;    // request_.streams, until they are passed to the job.
  std::array<ForeignDescriptor, 3> read_ends_;  // request_.held, until they are passed to `held_`.
  Station& station_;
  SupervisorWatch& watch_;
  bool changes_user_;
  std::vector<gid_t> groups_;  // The user's groups, if the job changes user.

  Descriptor record_file_;
  RunRecord record_;
  std::optional<JobCgroup> cgroup_;
  std::optional<Pty> pty_;
  Descriptor allocation_channel_;  // The first process closes its end when its report is written; open while we wait.
  HeldOutputs held_;
  JobNamespaces namespaces_;  // The namespaces of the job's first process.
  SupervisorReports reports_{record_, station_.control};
  SupervisorLease lease_{station_.setup, record_.lease, watch_};

  Exit exit_;  // Holds only what is not in `watch_`: a failure.
};

}  // namespace divvy
