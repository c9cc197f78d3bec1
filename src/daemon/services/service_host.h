// All services: their rows, their replicas' jobs, and the front. Several times a second it looks at the front's numbers
// and at the jobs, lets each ServiceScaler decide, and carries out what they decided. A replica's job is submitted in
// the same transaction as the row of its service. Runs on the loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

class ServiceHost {
 public:
  static constexpr std::string_view kRow = "service.";
  static constexpr std::size_t kMostOfUser = 100;
  static constexpr std::int64_t kMostReplicasOfUser = 1000;
  static constexpr std::int64_t kMostReplicasOfAll = 5000;

  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(bool is_warning, const std::string& line)> log;
    /// The owner as a caller of the controller.
    std::function<Caller(const User& user)> caller_of;
    /// The IP address at which a node's jobs can be reached; empty: unknown now. The controller's own node is "".
    std::function<std::string(const std::string& node)> address_of;
    /// "park" or "wake" for a tenant of shared GPUs.
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

  /// Takes a row of the store, before Open. An unreadable row is reported in the log and kept, as are all files of
  /// secrets then.
  void LoadSetting(std::string_view key, std::string_view text);
  /// Call once the loop runs.
  void Open();

  // Commands. `caller` is authenticated; these check whether it may. The caller commits afterwards (AfterCommit).
  /// `definition.spec` is complete and checked as a job.
  Result<std::string> Create(wire::ServiceDefinition definition, const Caller& caller);
  Result<std::string> Update(const std::string& name, wire::ServiceDefinition definition, const Caller& caller);
  Result<std::string> Scale(const std::string& name, const wire::ServiceScale& scale, const Caller& caller);
  /// Makes the canary the revision of all replicas.
  Result<std::string> Promote(const std::string& name, const Caller& caller);
  Result<std::string> RollBack(const std::string& name, std::int64_t revision, const Caller& caller);
  Result<std::string> Delete(const std::string& name, const Caller& caller);

  bool Has(const std::string& name) const { return services_.contains(name); }
  /// Returns the name of its user, or an empty text if there is no such service.
  std::string OwnerOf(const std::string& name) const;
  /// Returns its owner. Fails for a caller who may not update it.
  Result<Caller> OwnerFor(const std::string& name, const Caller& caller) const;
  /// Returns the error for a service that does not exist, or that the caller may not see.
  static Error NotThere(const std::string& name);
  /// Returns all services in the order of their names.
  std::vector<wire::ServiceView> List() const;
  /// Returns the times of a service's requests, or null.
  const ServiceTimes* TimesOf(const std::string& name) const;
  Result<wire::ServiceDetail> Show(const std::string& name, const Caller& caller) const;
  /// Returns its settings and what it runs now; for its owner and administrators, because it may hold secrets.
  Result<wire::ServiceDefinition> DefinitionOf(const std::string& name, const Caller& caller) const;
  /// Describes a replica's job: "replica 3 of service chat: ready; its health check fails". Empty: it is none.
  std::string NoteOfJob(JobId job) const;
  std::string front_trouble() const { return front_.trouble(); }

 private:
  struct Service;

  Result<Service*> FindOwn(const std::string& name, const Caller& caller, std::string_view verb) const;
  /// Fails if the front cannot have that many servers, for all services and for those of the user. `self` is null for a
  /// new service.
  Status CheckRoom(const wire::ServiceSettings& settings, const Service* self, const Caller& owner) const;
  Status TakePort(wire::ServiceSettings& settings, const Service* self);
  void Tick();
  void TickSoon(Duration delay);
  ServiceFacts FactsOf(Service& service, Time now);
  void FollowEnd(JobId job);
  void ReadListenersAgain(Duration most_age);
  /// Returns whether the listener at its port can be compared with its owner.
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
  /// Counts what its replicas have held since the last call.
  void CountUse(const Service& service, Time now);
  /// Returns the GPUs that its replicas hold, and their price per hour, both in thousandths.
  std::pair<double, double> UseOf(const Service& service) const;
  void Keep(const Service& service);
  /// Tells the front if the service has another canary than before. Call after each step of its scaler.
  void FollowCanary(Service& service);
  void ServeFront();
  std::vector<std::string> FrontCommands();
  /// Adds the commands for the servers of one of its backends.
  void AddCommands(const Service& service, bool is_canary, std::vector<std::string>& commands);
  wire::ServiceCanaryView CanaryView(const Service& service) const;
  void OnStat(const std::string& csv, bool is_full, Time sent);
  std::optional<double> LoadOf(Service& service) const;
  /// Returns 0 if no port is free.
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
  std::map<std::string, ServerState> servers_;  // As the front was told last, by "s_chat/r3". Others: in maintenance.
  bool are_servers_unknown_ = true;             // The front may have others than `servers_`.
  std::map<JobId, std::string> ends_;           // How replicas ended that are still in a row.
  struct Probed {
    bool answers = false;
    bool is_under_way = false;
    bool is_foreign = false;  // It answers, and the owner has no listener at its port.
    std::uint32_t attempt = 0;
    Time at = kNoTime;
  };
  std::map<JobId, Probed> probes_;  // Of starting replicas whose jobs run.
  PortListeners listeners_;         // Of this machine, up to a second old.
  Time listeners_at_ = kNoTime;
  std::int64_t next_port_ = 0;
  std::int64_t ticks_ = 0;
  int starts_ = 0;  // In this look.
  bool is_tick_due_ = false;
  bool is_asking_ = false;
  bool is_open_ = false;
  bool is_port_missing_ = false;  // The front leaves a service out.
  bool is_memory_short_ = false;
  bool has_unreadable_ = false;  // A row of the store could not be read.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
