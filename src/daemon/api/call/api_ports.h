// Everything that the daemon provides to the routes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/host_port.h"
#include "control/controller/controller.h"
#include "daemon/auth/admins.h"
#include "daemon/auth/audit.h"
#include "daemon/auth/remote_callers.h"
#include "daemon/fleet/step_callers.h"
#include "daemon/shares/sharing_snapshot.h"

namespace divvy {

class AgentListener;
class Counters;
class LeaseKeeper;
class MetricStore;
class NodeShares;
class Notifier;
class ProviderHost;
class RemoteStreams;
class SubmissionKeys;
class UiAuth;
class WasteTracker;

/// The daemon's description of itself.
struct About {
  std::int64_t pid = 0;
  Time since = kNoTime;
  std::string home;
  std::string socket;
  std::string user;
  bool is_machine_wide = false;
  std::string gpu_source;
  std::string isolation;      // A description for the whole node.
  std::string gpu_isolation;  // A short description for one GPU.
  std::vector<std::string> warnings;
};

/// The access from other machines.
struct RemoteAccess {
  RemoteCallers callers;
  HostPort address;         // The address that other machines use; port 0: remote access is off.
  std::string fingerprint;  // The fingerprint of this controller's certificate.
  /// Optional. The addresses of the cluster's other controllers, which have the same certificate.
  std::function<std::vector<HostPort>()> others = {};
};

struct ApiPorts {
  std::function<std::string(std::int64_t uid)> user_name;
  std::function<void()> shut_down;
  /// Returns start time (in clock ticks), user and command of a live process, for the rules by which administrators
  /// ignore processes on GPUs; nullopt if there is no such process.
  std::function<std::optional<IgnoredProcess>(std::int64_t pid)> look_up_process;
  /// Runs `work` for this user on a thread for slow reads, and then the function that it returns on the loop's thread.
  /// The work of one user runs in order, and in parallel with that of other users (runtime/fair_workers.h).
  std::function<void(std::int64_t uid, std::function<std::function<void()>()> work)> read;
  /// Optional. Returns true if a user is in a group, because teams may consist of groups. May query the network, so
  /// results are cached for half a minute.
  Admins::IsInGroup is_in_group;
  /// Optional. Looks up a user that jobs can run as. Null: any name is accepted.
  std::function<std::optional<User>(const std::string& name)> find_user;
  /// Optional. The environment of a login of this user: HOME, USER, LOGNAME, SHELL and PATH.
  std::function<std::vector<std::string>(const User& user)> login_environment;
  /// Must not be null.
  std::shared_ptr<RemoteAccess> remote;
  std::shared_ptr<Audit> audit;
  /// Optional. The nodes of agents.
  std::shared_ptr<AgentListener> agents;
  /// True if jobs may be submitted by uid 0.
  bool takes_root_jobs = true;
  /// Optional. Streams to the nodes of agents.
  std::shared_ptr<RemoteStreams> remote_streams;
  /// The tenants of shared GPUs. Must not be null.
  std::shared_ptr<const SharingSnapshot> shares = std::make_shared<SharingSnapshot>();
  /// Optional. The shared GPUs of this node.
  NodeShares* own_shares = nullptr;
  /// Optional. Callers that start steps in jobs from outside. Null: not allowed.
  std::shared_ptr<StepCallers> step_callers;
  /// Optional. Usage samples.
  std::shared_ptr<MetricStore> samples;
  /// Optional. Jobs that waste GPUs.
  std::shared_ptr<const WasteTracker> waste;
  /// Optional. Providers of nodes.
  std::shared_ptr<ProviderHost> providers;
  /// Optional. Sends notifications.
  std::shared_ptr<Notifier> notifier;
  /// Optional. The web page.
  std::shared_ptr<UiAuth> ui;
  /// Optional. Event counters for metrics scrapers.
  std::shared_ptr<const Counters> counters;
  /// Optional. The keys of submissions.
  std::shared_ptr<SubmissionKeys> submission_keys;
  /// Optional. Which of several controllers leads.
  std::shared_ptr<LeaseKeeper> leadership;
  bool has_dcgm_names = false;  // Also exports GPUs under the names of NVIDIA's DCGM exporter.
  /// Shows names, commands and reasons of jobs only to their owners and to administrators.
  bool hides_others_jobs = false;
  /// Runs a task on the loop's thread later. Null: submissions are not rate-limited.
  std::function<void(Duration, std::function<void()>)> after;
  /// The time from the stop signal to SIGKILL, for jobs that set no grace.
  Duration default_grace = std::chrono::seconds(30);
};

}  // namespace divvy
