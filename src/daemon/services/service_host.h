// Manages all services: their rows in the store, the jobs that are their replicas, and the front (the HAProxy process
// for their ports). Several times a second it looks at the front's statistics and at the jobs, lets the ServiceScaler
// of each service decide, and carries out the decisions. A replica's job is submitted in the same transaction as the
// row of its service. Runs on the loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/services/haproxy.h"
#include "daemon/services/request_times.h"
#include "daemon/services/service_probe.h"
#include "daemon/services/service_scaler.h"
#include "daemon/services/service_secrets.h"
#include "daemon/shares/sharing_snapshot.h"
#include "driver/controller_driver.h"
#include "wire/services/service_messages.h"

namespace divvy {

namespace wire {
struct WhyView;
}  // namespace wire

class ServiceHost {
 public:
  static constexpr std::string_view kRow = "service.";
  static constexpr std::size_t kMostOfUser = 100;
  static constexpr std::int64_t kMostReplicasOfUser = 1000;
  static constexpr std::int64_t kMostReplicasOfAll = 5000;

  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(bool is_warning, const std::string& line)> log;
    /// Returns this user, a service's owner, with the user's present rights, for requests to the controller.
    std::function<Caller(const User& user)> caller_of;
    /// Returns the IP address at which the jobs of a node can be reached; empty if it is unknown now. `node` is empty
    /// for the controller's own node.
    std::function<std::string(const std::string& node)> address_of;
    /// Performs `action`, "park" or "wake", on a job with GPU fractions.
    std::function<void(const JobRecord& record, const std::string& action, std::function<void(const Status&)> done)>
        act;
    std::shared_ptr<const SharingSnapshot> shares;
    /// How many GPUs a running job has used, as a mean over the last minute; nullopt: unknown.
    std::function<std::optional<double>(const JobRecord& record)> gpus_used;
    /// The last value of a metric that a running job reported; nullopt: none.
    std::function<std::optional<double>(const JobRecord& record, const std::string& name)> metric_of;
    std::string cluster_secret;  // With several controllers: SecretPlace::cluster_secret.
    std::string shown_host;      // For the URLs in views.
  };

  ServiceHost(boost::asio::io_context& loop, ControllerDriver& driver, Haproxy::Options options, Ports ports);
  ~ServiceHost();

  /// Loads a row of the store. Call before Open. An unreadable row is reported in the log and stays in the store; then
  /// no files of secrets are removed either.
  void LoadSetting(std::string_view key, std::string_view text);
  /// Call once the loop runs.
  void Open();

  // Commands of users. `caller` is authenticated; each function checks whether it has the right to the change, and
  // returns a message about what was done. The code that calls them must then wait until the change is stored
  // (AfterCommit).
  /// Creates a service. Requires: `definition.spec` is complete and was checked as that of a job.
  Result<std::string> Create(wire::ServiceDefinition definition, const Caller& caller);
  Result<std::string> Update(const std::string& name, wire::ServiceDefinition definition, const Caller& caller);
  Result<std::string> Scale(const std::string& name, const wire::ServiceScale& scale, const Caller& caller);
  /// Makes the canary the revision of all replicas.
  Result<std::string> Promote(const std::string& name, const Caller& caller);
  Result<std::string> RollBack(const std::string& name, std::int64_t revision, const Caller& caller);
  Result<std::string> Delete(const std::string& name, const Caller& caller);

  bool Has(const std::string& name) const { return services_.contains(name); }
  /// Returns the name of the service's owner, or an empty text if there is no such service.
  std::string OwnerOf(const std::string& name) const;
  /// Returns the service's owner. Fails if the caller may not update the service.
  Result<Caller> OwnerFor(const std::string& name, const Caller& caller) const;
  /// Returns the error for a service that does not exist, or that the caller may not see.
  static Error NotThere(const std::string& name);
  /// Returns all services in the order of their names.
  std::vector<wire::ServiceView> List() const;
  /// Returns the times of a service's requests, or null.
  const ServiceTimes* TimesOf(const std::string& name) const;
  Result<wire::ServiceDetail> Show(const std::string& name, const Caller& caller) const;
  /// Returns the service's settings and the specification that its replicas run now. Fails unless the caller is the
  /// owner or an administrator, because the specification may hold secrets.
  Result<wire::ServiceDefinition> DefinitionOf(const std::string& name, const Caller& caller) const;
  /// Describes a job that is a replica, with the present problem: "replica 3 of service chat: ready; its health check
  /// fails". Empty for other jobs.
  std::string NoteOfJob(JobId job) const;
  /// Explains the state of a service, with the present problem. Requires: Has(name).
  wire::WhyView WhyOf(const std::string& name) const;
  std::string front_trouble() const { return front_.trouble(); }

 private:
  struct Service;

  Result<Service*> FindOwn(const std::string& name, const Caller& caller, std::string_view verb) const;
  /// Fails if with these settings all services together, or those of the owner, could have more replicas than the front
  /// has room for. `self` is the service that gets the settings; null for a new one.
  Status CheckRoom(const wire::ServiceSettings& settings, const Service* self, const Caller& owner) const;
  Status TakePort(wire::ServiceSettings& settings, const Service* self);
  void Tick();
  void TickSoon(Duration delay);
  ServiceFacts FactsOf(Service& service, Time now);
  void FollowEnd(JobId job);
  /// Returns the uid of the process that listens at a port of this machine, as found out at most a second ago.
  std::int64_t ListenerAt(std::uint16_t port);
  /// Returns true if it can be checked that the process which listens at the replica's port belongs to the service's
  /// owner.
  bool IsChecked(const Service& service, const wire::ServiceReplica& replica, const JobRecord& record) const;
  void Probe(const Service& service, const wire::ServiceReplica& replica, const JobRecord& record, Time now);
  void CarryOut(Service& service, const ServiceAction& action);
  void StartReplica(Service& service, std::int64_t revision, const std::string& reason);
  /// Applies the secrets of a request. Returns a text about them for the answer.
  Result<std::string> ReadSecrets(const wire::ServiceSecrets& secrets, wire::KeptService& kept);
  SecretPlace Secrets() const { return {front_.options().place.directory, ports_.cluster_secret}; }
  /// Removes files of secrets that no service needs, once its row is stored.
  void CleanSecretsAfterCommit();
  void CleanSecrets();
  /// Counts the GPU time and the cost of the service's replicas since the last call.
  void CountUse(const Service& service, Time now);
  /// Returns how many GPUs the service's replicas hold, and the price of these GPUs per hour, both in thousandths.
  std::pair<double, double> UseOf(const Service& service) const;
  void Keep(const Service& service);
  /// Updates the front if the service has got another canary, or has none any more. Call after each step of its scaler.
  void FollowCanary(Service& service);
  void ServeFront();
  std::vector<std::string> FrontCommands();
  /// Adds the commands that bring the servers of the service's backend (or of its canary's backend) up to date.
  void AddCommands(const Service& service, bool is_canary, std::vector<std::string>& commands);
  wire::ServiceCanaryView CanaryView(const Service& service) const;
  void OnStat(const std::string& csv, bool is_full, Time sent);
  std::optional<double> LoadOf(Service& service) const;
  /// Returns a port for a new replica, or 0 if none is free.
  std::int64_t FreeReplicaPort();
  std::string AddressOf(const JobRecord* record) const;
  std::string UrlOf(const Service& service) const;
  void Fill(const Service& service, wire::ServiceView& view) const;

  boost::asio::io_context& loop_;
  ControllerDriver& driver_;
  Ports ports_;
  Haproxy front_;
  RequestTimes times_;
  std::map<std::string, std::unique_ptr<Service>> services_;
  // The states of HAProxy's servers as they were set last, by name such as "s_chat/r3". Servers that are missing here
  // are in maintenance.
  std::map<std::string, ServerState> servers_;
  bool are_servers_unknown_ = true;    // The states in the front may differ from `servers_`.
  std::map<JobId, std::string> ends_;  // How the jobs of replicas ended, while the rows of services still list them.
  struct Probed {
    bool answers = false;
    bool is_under_way = false;
    bool is_foreign = false;  // It answers, and the owner has no listener at its port.
    std::uint32_t attempt = 0;
    Time at = kNoTime;
  };
  std::map<JobId, Probed> probes_;                   // The last probes of starting replicas whose jobs run.
  std::map<std::uint16_t, std::int64_t> listeners_;  // By port: results of ListenerAt in this second.
  std::minstd_rand draws_{std::random_device()()};   // Draws ports for replicas.
  std::int64_t ticks_ = 0;
  int starts_ = 0;  // The replicas that were started in the present look.
  bool is_tick_due_ = false;
  bool is_asking_ = false;
  bool is_open_ = false;
  bool is_port_missing_ = false;  // The front leaves a service out: its port is taken, or a file of it is missing.
  bool is_memory_short_ = false;
  bool has_unreadable_ = false;  // A row of the store could not be read.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
