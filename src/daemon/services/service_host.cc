#include "daemon/services/service_host.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <fstream>
#include <set>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "daemon/services/service_checks.h"
#include "dialect/options/job_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quoted.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(250);
constexpr Duration kTickWhileHeld = std::chrono::milliseconds(100);
constexpr Duration kTickWithoutFront = std::chrono::milliseconds(50);
constexpr std::int64_t kTicksPerFull = 4;
constexpr std::int64_t kTicksPerRetry = 20;  // How often reserving a port that another process has is tried again.
constexpr Duration kProbeEvery = std::chrono::milliseconds(200);
constexpr std::int64_t kFirstFrontPort = 8000;
constexpr std::int64_t kLastFrontPort = 8999;
// Below the ports that the kernel gives to outgoing connections.
constexpr std::int64_t kFirstReplicaPort = 20'000;
constexpr std::int64_t kReplicaPorts = 12'000;
constexpr int kPortTries = 50;
constexpr int kMostStarts = 20;  // The limit on replicas that are started in one look.
constexpr std::size_t kMostRevisions = 10;
constexpr double kLeastMetric = 1e-9;
constexpr double kShortOfMemory = 0.05;  // Host memory is short if less than this share of it is available.

bool IsHostShortOfMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  double total = 0;
  double available = 0;
  for (double value = 0; file >> name >> value && std::getline(file, unit);) {
    if (name == "MemTotal:") total = value;
    if (name == "MemAvailable:") available = value;
  }
  return total > 0 && available < kShortOfMemory * total;
}

std::string HowEnded(const JobRecord& record) {
  if (record.exit && !record.exit->failure.empty()) return "could not start: " + record.exit->failure;
  if (record.exit && record.exit->was_oom_killed) return "was killed because it exceeded its memory";
  if (record.exit && record.exit->signal != 0) return "was ended by signal " + std::to_string(record.exit->signal);
  if (record.exit && record.state != JobState::kCancelled && record.state != JobState::kTimedOut)
    return "exited with code " + std::to_string(record.exit->code);
  return "ended (" + std::string(Name(record.state)) + ")";
}

/// The caller for actions that services take on their replicas' jobs by themselves.
Caller ServicesCaller() {
  Caller self;
  self.is_admin = true;
  self.user.name = "divvy";
  return self;
}

/// Whether both run the same, apart from the environment of the shells that submitted them.
bool RunTheSame(JobSpec a, JobSpec b) {
  a.capture = b.capture = {};
  a.notes = b.notes = {};
  return a == b;
}

std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g%%", share * 100);
  return text;
}

std::string CommandText(const JobSpec& spec) {
  std::string text = spec.command.empty() ? std::string("(script)") : "";
  for (const std::string& word : spec.command) text += (text.empty() ? "" : " ") + ShellQuote(word);
  return OneLine(text);
}

}  // namespace

struct ServiceHost::Service {
  wire::KeptService kept;
  std::unique_ptr<ServiceScaler> scaler;
  bool is_changed = false;                 // Its row must be stored again.
  std::string front_trouble;               // Why the front does not serve it. Empty: it does.
  StatLine total;                          // The line of its backend.
  StatLine canary;                         // The line of its canary's backend.
  std::map<std::int64_t, StatLine> slots;  // The lines of its servers in the last full answer.
  std::map<std::int64_t, StatLine> canary_slots;
  std::int64_t served_canary = 0;  // The canary that the front has.
  Time stat_at = kNoTime;
  std::optional<double> load;
  std::optional<double> metric;  // The sum of its metric over the replicas.
  double per_second = 0;
  std::int64_t counted = -1;
  Time counted_at = kNoTime;

  const std::string& name() const { return kept.settings.name; }
  wire::ServiceRevision* FindRevision(std::int64_t number) {
    const auto found = std::ranges::find(kept.revisions, number, &wire::ServiceRevision::number);
    return found == kept.revisions.end() ? nullptr : &*found;
  }
  wire::ServiceRevision* target() { return FindRevision(kept.target_revision); }
  bool IsCanary(const wire::ServiceReplica& replica) const {
    return kept.canary_revision != 0 && replica.revision == kept.canary_revision;
  }
  const StatLine* StatOf(const wire::ServiceReplica& replica) const {
    const std::map<std::int64_t, StatLine>& lines = IsCanary(replica) ? canary_slots : slots;
    const auto found = lines.find(replica.slot);
    return found == lines.end() ? nullptr : &found->second;
  }
  /// In both backends: a canary that ends, or is promoted, has requests in the other one.
  std::int64_t InFlightOf(const wire::ServiceReplica& replica) const {
    std::int64_t sum = 0;
    for (const auto* lines : {&slots, &canary_slots}) {
      if (const auto found = lines->find(replica.slot); found != lines->end()) sum += found->second.in_flight;
    }
    return sum;
  }
};

ServiceHost::ServiceHost(boost::asio::io_context& loop, ControllerDriver& driver, Haproxy::Options options, Ports ports)
    : loop_(loop),
      driver_(driver),
      ports_(std::move(ports)),
      front_(loop, std::move(options), {ports_.after, ports_.log, [this](bool is_new) {
                                          servers_.clear();
                                          are_servers_unknown_ = !is_new;
                                          TickSoon(kTickWithoutFront);
                                        }}) {}

ServiceHost::~ServiceHost() { *is_alive_ = false; }

void ServiceHost::LoadSetting(std::string_view key, std::string_view text) {
  auto kept = wire::Decode<wire::KeptService>(text);
  if (!kept || CheckService(kept->settings).has_value() == false) {
    ports_.log(true, "event=service_row_unreadable key=" + std::string(key));
    has_unreadable_ = true;
    return;
  }
  auto service = std::make_unique<Service>();
  service->kept = *std::move(kept);
  service->scaler = std::make_unique<ServiceScaler>(service->kept, driver_.Now());
  services_.insert_or_assign(service->name(), std::move(service));
}

void ServiceHost::Open() {
  is_open_ = true;
  if (const Status opened = times_.Open(front_.options().place.directory); !opened)
    ports_.log(true, "event=front_times error=\"" + opened.error().message + "\"");
  for (const auto& [name, service] : services_) {
    times_.Keep(BackendOf(name));
    // Set here, because FollowCanary would otherwise start a new HAProxy before the running one is adopted.
    service->served_canary = service->kept.canary_revision;
    if (service->served_canary != 0) times_.Keep(CanaryBackendOf(name));
  }
  front_.Adopt();
  for (const auto& [name, service] : services_) {
    for (const wire::ServiceReplica& replica : service->kept.replicas) FollowEnd(replica.job);
    if (SealCertificate(Secrets(), service->kept)) Keep(*service);
  }
  CleanSecrets();
  ServeFront();
  for (const auto& [name, service] : services_) {
    if (!service->front_trouble.empty())
      ports_.log(true, "event=service_port name=" + name + " error=\"" + service->front_trouble + "\"");
  }
  TickSoon(Duration(0));
}

// --- Commands ----------------------------------------------------------------------------------------------------

std::string ServiceHost::OwnerOf(const std::string& name) const {
  const auto found = services_.find(name);
  return found == services_.end() ? "" : found->second->kept.user.name;
}

Error ServiceHost::NotThere(const std::string& name) {
  return NotFound("there is no service " + dialect::Quoted(OneLine(name)) + "; divvy serve list shows them");
}

Result<ServiceHost::Service*> ServiceHost::FindOwn(const std::string& name, const Caller& caller,
                                                   std::string_view verb) const {
  const auto found = services_.find(name);
  if (found == services_.end() || found->second->kept.is_deleted) return NotThere(name);
  if (!caller.is_admin && caller.user.uid != found->second->kept.user.uid)
    return PermissionDenied("service " + name + " belongs to " + found->second->kept.user.name +
                            "; only its owner and administrators may " + std::string(verb) + " it");
  return found->second.get();
}

Result<Caller> ServiceHost::OwnerFor(const std::string& name, const Caller& caller) const {
  DIVVY_TRY(const Service* service, FindOwn(name, caller, "update"));
  return ports_.caller_of(service->kept.user);
}

Status ServiceHost::CheckRoom(const wire::ServiceSettings& settings, const Service* self, const Caller& owner) const {
  if (self != nullptr && settings.max_replicas <= self->kept.settings.max_replicas) return {};
  std::int64_t all = settings.max_replicas;
  std::int64_t own = settings.max_replicas;
  for (const auto& [name, service] : services_) {
    if (service.get() == self) continue;
    all += service->kept.settings.max_replicas;
    if (service->kept.user.uid == owner.user.uid) own += service->kept.settings.max_replicas;
  }
  const auto refuse = [](std::string_view whose, std::int64_t count, std::int64_t most) {
    return LimitExceeded(std::string(whose) + " services would have " + std::to_string(count) +
                         " replicas at most, and the limit is " + std::to_string(most) +
                         "; lower MAX in --replicas MIN..MAX");
  };
  if (!owner.is_admin && own > kMostReplicasOfUser) return refuse("a user's", own, kMostReplicasOfUser);
  if (all > kMostReplicasOfAll) return refuse("all", all, kMostReplicasOfAll);
  return {};
}

Status ServiceHost::TakePort(wire::ServiceSettings& settings, const Service* self) {
  const auto holder_of = [&](std::int64_t port) -> const Service* {
    for (const auto& [name, service] : services_) {
      if (service.get() != self && service->kept.settings.port == port) return service.get();
    }
    return nullptr;
  };
  if (settings.port != 0) {
    if (settings.port >= kFirstReplicaPort && settings.port < kFirstReplicaPort + kReplicaPorts)
      return InvalidArgument("--port " + std::to_string(settings.port) +
                             " is not allowed: ports from 20000 to 31999 are those of replicas; choose another, or "
                             "omit it");
    if (const Service* other = holder_of(settings.port))
      return FailedPrecondition("port " + std::to_string(settings.port) + " is that of service " + other->name() +
                                "; choose another --port, or omit it");
    return front_.Reserve(settings.port);
  }
  for (std::int64_t port = kFirstFrontPort; port <= kLastFrontPort; ++port) {
    if (holder_of(port) != nullptr || !front_.Reserve(port)) continue;
    settings.port = port;
    return {};
  }
  return FailedPrecondition("no port from 8000 to 8999 is free; choose one with --port");
}

Result<std::string> ServiceHost::Create(wire::ServiceDefinition definition, const Caller& caller) {
  wire::ServiceSettings& settings = definition.settings;
  DIVVY_CHECK(CheckService(settings));
  DIVVY_CHECK(CheckReplicaSpec(definition.spec));
  if (definition.canary != 0)
    return InvalidArgument("--canary is for divvy serve update: a new service has no other revision");
  if (services_.contains(settings.name))
    return Error{ErrorCode::kAlreadyExists, "there is a service " + settings.name + " of " +
                                                services_.at(settings.name)->kept.user.name +
                                                "; choose another name, or change it with divvy serve update"};
  const auto own = std::ranges::count_if(
      services_, [&](const auto& known) { return known.second->kept.user.uid == caller.user.uid; });
  if (!caller.is_admin && static_cast<std::size_t>(own) >= kMostOfUser)
    return LimitExceeded("you have " + std::to_string(own) + " services, which is the limit of a user");
  if (front_.options().program.empty())
    return FailedPrecondition(
        "services need HAProxy: install the package haproxy (apt-get install haproxy), or set haproxy = "
        "\"/path/to/haproxy\" in [services] of divvy.toml");
  DIVVY_CHECK(front_.CheckFolder());
  if (!caller.is_admin) DIVVY_CHECK(front_.CheckChange(std::int64_t{caller.user.uid}));
  DIVVY_CHECK(CheckRoom(settings, nullptr, caller));
  auto service = std::make_unique<Service>();
  service->kept.user = caller.user;
  service->kept.settings = settings;
  DIVVY_TRY(const std::string about_secrets, ReadSecrets(definition.secrets, service->kept));
  if (Status taken = TakePort(settings, nullptr); !taken) {
    CleanSecretsAfterCommit();
    return taken.error();
  }
  const Time now = driver_.Now();
  service->kept.settings = settings;
  service->kept.revisions.push_back({1, std::move(definition.spec), ToSeconds(now), false, ""});
  service->kept.target_revision = 1;
  service->scaler = std::make_unique<ServiceScaler>(service->kept, now);
  service->scaler->AddEvent("created", now);
  Keep(*service);
  const std::string text =
      "service " + settings.name + ": " + UrlOf(*service) + "; divvy serve show " + settings.name + about_secrets;
  times_.Keep(BackendOf(settings.name));
  services_.insert_or_assign(settings.name, std::move(service));
  ServeFront();
  TickSoon(Duration(0));
  return text;
}

Result<std::string> ServiceHost::Update(const std::string& name, wire::ServiceDefinition definition,
                                        const Caller& caller) {
  DIVVY_TRY(Service * service, FindOwn(name, caller, "update"));
  wire::KeptService& kept = service->kept;
  wire::ServiceSettings& settings = definition.settings;
  settings.name = name;
  if (settings.port == 0) settings.port = kept.settings.port;
  DIVVY_CHECK(CheckService(settings));
  DIVVY_CHECK(CheckReplicaSpec(definition.spec));
  DIVVY_CHECK(CheckRoom(settings, service, ports_.caller_of(kept.user)));
  DIVVY_CHECK(CheckCanary(definition.canary));
  // The environment of an administrator's shell is not the owner's.
  if (caller.user.uid != kept.user.uid) definition.spec.capture = service->target()->spec.capture;
  if (definition.canary > 0 && kept.canary_revision == 0 &&
      (definition.keeps_same ? RunTheSame(service->target()->spec, definition.spec)
                             : service->target()->spec == definition.spec))
    return FailedPrecondition("--canary: service " + name +
                              " has no canary whose share could change; to start one, also change the command of the "
                              "replicas (-- COMMAND) or one of their options");
  wire::KeptService changed;
  changed.settings.name = name;
  changed.token_hashes = kept.token_hashes;
  changed.certificate = kept.certificate;
  changed.sealed_certificate = kept.sealed_certificate;
  DIVVY_TRY(const std::string about_secrets, ReadSecrets(definition.secrets, changed));
  const bool has_secrets = changed.token_hashes != kept.token_hashes || changed.certificate != kept.certificate;
  const bool has_settings = !(settings == kept.settings);
  if (!caller.is_admin && (has_secrets || has_settings || definition.canary != 0)) {
    if (const Status may = front_.CheckChange(std::int64_t{kept.user.uid}); !may) {
      CleanSecretsAfterCommit();
      return may.error();
    }
  }
  if (settings.port != kept.settings.port) {
    if (Status taken = TakePort(settings, service); !taken) {
      CleanSecretsAfterCommit();
      return taken.error();
    }
    front_.Release(kept.settings.port);
  }
  const Time now = driver_.Now();
  kept.token_hashes = std::move(changed.token_hashes);
  kept.certificate = std::move(changed.certificate);
  kept.sealed_certificate = std::move(changed.sealed_certificate);
  if (has_secrets) service->scaler->AddEvent("tokens or certificate changed", now);
  kept.settings = settings;
  if (has_settings) {
    service->scaler->OnSettings();
    service->scaler->AddEvent("settings changed", now);
  }
  const JobSpec& before = service->target()->spec;
  bool is_same = definition.keeps_same ? RunTheSame(before, definition.spec) : before == definition.spec;
  std::string text = "service " + name + (has_settings || has_secrets ? ": settings changed" : ": unchanged");
  // The canary's own definition, or the target's, with another share.
  const wire::ServiceRevision* canary = service->FindRevision(kept.canary_revision);
  if (definition.canary > 0) {
    const bool is_canary = canary != nullptr && (is_same || RunTheSame(canary->spec, definition.spec));
    if (is_canary) {
      kept.canary_share = definition.canary;
      text = "revision " + std::to_string(kept.canary_revision) + " gets " + PercentText(definition.canary) +
             " of the requests";
      service->scaler->OnNewCanary(text, now);
      text = "service " + name + ": " + text;
    }
    is_same = is_same || is_canary;
  }
  if (!is_same) {
    const std::int64_t number = kept.revisions.back().number + 1;
    kept.revisions.push_back({number, std::move(definition.spec), ToSeconds(now), false, ""});
    if (definition.canary > 0) {
      service->scaler->EndCanary("revision " + std::to_string(number) + " is the canary", now);
      kept.canary_revision = number;
      kept.canary_share = definition.canary;
    } else {
      service->scaler->EndCanary("revision " + std::to_string(number) + " is rolled out", now);
      kept.target_revision = number;
    }
    if (kept.revisions.size() > kMostRevisions) {
      const auto is_unused = [&](const wire::ServiceRevision& revision) {
        return revision.number != kept.target_revision && revision.number != kept.canary_revision &&
               std::ranges::none_of(kept.replicas, [&](const wire::ServiceReplica& replica) {
                 return replica.revision == revision.number;
               });
      };
      const auto oldest = std::ranges::find_if(kept.revisions, is_unused);
      if (oldest != kept.revisions.end()) kept.revisions.erase(oldest);
    }
    const std::string what = definition.canary > 0 ? PercentText(definition.canary) +
                                                         " of the requests go to revision " + std::to_string(number)
                                                   : "updating to revision " + std::to_string(number);
    if (definition.canary > 0) {
      service->scaler->OnNewCanary(what, now);
      text =
          "service " + name + ": " + what + " until divvy serve promote " + name + " or divvy serve rollback " + name;
    } else {
      service->scaler->OnNewTarget(what, now);
      text = "service " + name + ": " + what + "; divvy serve show " + name;
    }
  }
  Keep(*service);
  ServeFront();
  TickSoon(Duration(0));
  if (has_secrets) CleanSecretsAfterCommit();
  return text + about_secrets;
}

Result<std::string> ServiceHost::Scale(const std::string& name, const wire::ServiceScale& scale, const Caller& caller) {
  DIVVY_TRY(Service * service, FindOwn(name, caller, "scale"));
  wire::ServiceDefinition changed{service->kept.settings, service->target()->spec, {}, false};
  changed.settings.min_replicas = scale.min_replicas;
  changed.settings.max_replicas = scale.max_replicas;
  DIVVY_CHECK(Update(name, std::move(changed), caller));
  return "service " + name + ": " + std::to_string(scale.min_replicas) + " to " + std::to_string(scale.max_replicas) +
         " replicas";
}

Result<std::string> ServiceHost::RollBack(const std::string& name, std::int64_t revision, const Caller& caller) {
  DIVVY_TRY(Service * service, FindOwn(name, caller, "roll back"));
  wire::KeptService& kept = service->kept;
  if (revision == 0 && kept.canary_revision != 0) {
    const std::string text = "rolled back the canary, revision " + std::to_string(kept.canary_revision);
    service->scaler->EndCanary("it was rolled back", driver_.Now());
    Keep(*service);
    ServeFront();
    TickSoon(Duration(0));
    return "service " + name + ": " + text;
  }
  if (revision == 0) {
    for (const wire::ServiceRevision& known : kept.revisions) {
      if (known.number < kept.target_revision && known.was_healthy && known.note.empty()) revision = known.number;
    }
    if (revision == 0)
      return FailedPrecondition("service " + name + " has no healthy revision before revision " +
                                std::to_string(kept.target_revision) + "; divvy serve show " + name + " lists them");
  }
  const auto found = std::ranges::find(kept.revisions, revision, &wire::ServiceRevision::number);
  if (found == kept.revisions.end())
    return NotFound("service " + name + " has no revision " + std::to_string(revision) + "; divvy serve show " + name +
                    " lists them");
  service->scaler->EndCanary("revision " + std::to_string(revision) + " is rolled out", driver_.Now());
  kept.target_revision = revision;
  service->target()->note.clear();
  service->target()->was_withdrawn = false;
  const std::string text = "rolling back to revision " + std::to_string(revision);
  service->scaler->OnNewTarget(text, driver_.Now());
  Keep(*service);
  ServeFront();
  TickSoon(Duration(0));
  return "service " + name + ": " + text;
}

Result<std::string> ServiceHost::Promote(const std::string& name, const Caller& caller) {
  DIVVY_TRY(Service * service, FindOwn(name, caller, "promote the canary of"));
  wire::KeptService& kept = service->kept;
  const std::int64_t revision = kept.canary_revision;
  if (revision == 0)
    return FailedPrecondition("service " + name + " has no canary; divvy serve update " + name +
                              " --canary 10% starts one");
  service->scaler->EndCanary("it is promoted", driver_.Now());
  kept.target_revision = revision;
  service->target()->note.clear();
  service->target()->was_withdrawn = false;
  const std::string text = "updating to revision " + std::to_string(revision);
  service->scaler->OnNewTarget(text, driver_.Now());
  Keep(*service);
  ServeFront();
  TickSoon(Duration(0));
  return "service " + name + ": " + text + "; divvy serve show " + name;
}

Result<std::string> ServiceHost::Delete(const std::string& name, const Caller& caller) {
  DIVVY_TRY(Service * service, FindOwn(name, caller, "delete"));
  service->kept.is_deleted = true;
  Keep(*service);
  ServeFront();
  CleanSecretsAfterCommit();
  TickSoon(Duration(0));
  return "service " + name + " is deleted; its replicas end when their requests are answered";
}

std::string ServiceHost::UrlOf(const Service& service) const {
  return (service.kept.certificate.empty() ? "http://" : "https://") + ports_.shown_host + ":" +
         std::to_string(service.kept.settings.port) + "/";
}

Result<std::string> ServiceHost::ReadSecrets(const wire::ServiceSecrets& secrets, wire::KeptService& kept) {
  DIVVY_TRY(const std::string made, ApplySecrets(secrets, Secrets(), kept));
  return made.empty() ? made : "\nits new token, which is not shown again: " + made;
}

void ServiceHost::CleanSecrets() {
  if (has_unreadable_) return;  // It is unknown which files those services need.
  std::set<std::string> needed;
  for (const auto& [name, service] : services_) {
    if (!service->kept.is_deleted) AddFilesOf(service->kept, needed);
  }
  RemoveOtherFiles(front_.options().place.directory, needed);
}

void ServiceHost::CleanSecretsAfterCommit() {
  driver_.AfterCommit(
      [this, alive = is_alive_](const Status& stored) {
        if (*alive && stored) CleanSecrets();
      },
      ControllerDriver::IfNotStored::kRefuse);
}

void ServiceHost::Keep(const Service& service) {
  driver_.controller().KeepSetting(std::string(kRow) + service.name(), wire::EncodeChanged(service.kept));
  driver_.Touch();
}

void ServiceHost::FollowCanary(Service& service) {
  const wire::KeptService& kept = service.kept;
  if (std::exchange(service.served_canary, kept.canary_revision) == kept.canary_revision) return;
  times_.Forget(CanaryBackendOf(service.name()));
  if (kept.canary_revision != 0) times_.Keep(CanaryBackendOf(service.name()));
  ServeFront();
}

void ServiceHost::ServeFront() {
  if (!is_open_) return;
  std::vector<FrontService> served;
  is_port_missing_ = false;
  for (const auto& [name, service] : services_) {
    const wire::ServiceSettings& settings = service->kept.settings;
    if (service->kept.is_deleted) continue;
    // HAProxy does not start at all if it cannot bind one of its ports.
    const Status reserved = front_.Reserve(settings.port);
    // A service whose certificate or tokens are missing is not served, since it would be served without protection.
    const auto certificate = CertificatePath(service->kept, Secrets());
    const auto tokens = TokensPath(service->kept, front_.options().place.directory);
    service->front_trouble = !reserved      ? reserved.error().message
                             : !certificate ? certificate.error().message
                             : !tokens      ? tokens.error().message
                                            : "";
    is_port_missing_ |= !reserved || !tokens;
    if (!reserved || !certificate || !tokens) continue;
    FrontService& front =
        served.emplace_back(FrontService{settings, SlotsOf(settings), *certificate, *tokens,
                                         service->kept.canary_revision != 0 ? service->kept.canary_share : 0,
                                         service->kept.canary_revision, std::int64_t{service->kept.user.uid}});
    for (const wire::ServiceReplica& replica : service->kept.replicas)
      front.slots = std::max(front.slots, replica.slot);
  }
  front_.Serve(served);
}

// --- Looking and acting ----------------------------------------------------------------------------------------------

void ServiceHost::TickSoon(Duration delay) {
  if (!is_open_ || is_tick_due_ || is_asking_ || services_.empty()) return;
  is_tick_due_ = true;
  const auto tick = [this, alive = is_alive_] {
    if (!*alive) return;
    is_tick_due_ = false;
    Tick();
  };
  if (delay == Duration(0)) boost::asio::post(loop_, tick);
  else ports_.after(delay, tick);
}

void ServiceHost::Tick() {
  const Time now = driver_.Now();
  if (!driver_.may_act()) return TickSoon(kTick);
  starts_ = 0;
  times_.Read(now);
  if (is_port_missing_ && ticks_ % kTicksPerRetry == 0) ServeFront();
  const bool is_second = ticks_++ % kTicksPerFull == 0;
  if (is_second) {
    is_memory_short_ = IsHostShortOfMemory();
    listeners_.clear();
    std::set<JobId> jobs;
    for (const auto& [name, service] : services_) {
      for (const wire::ServiceReplica& replica : service->kept.replicas) jobs.insert(replica.job);
      CountUse(*service, now);
    }
    std::erase_if(ends_, [&](const auto& end) { return !jobs.contains(end.first); });
  }
  bool is_full = is_second;
  bool is_held = false;
  for (auto at = services_.begin(); at != services_.end();) {
    Service& service = *at->second;
    const std::vector<ServiceAction> actions = service.scaler->Step(FactsOf(service, now));
    for (const ServiceAction& action : actions) CarryOut(service, action);
    FollowCanary(service);
    if (service.kept.is_deleted && service.kept.replicas.empty()) {
      driver_.controller().KeepSetting(std::string(kRow) + service.name(), "");
      driver_.Touch();
      front_.Release(service.kept.settings.port);
      times_.Forget(BackendOf(service.name()));
      times_.Forget(CanaryBackendOf(service.name()));
      at = services_.erase(at);
      continue;
    }
    const bool has_changed = std::exchange(service.is_changed, false);
    if (service.scaler->TakeChanged() || has_changed) Keep(service);
    for (const wire::ServiceReplica& replica : service.kept.replicas)
      is_full |= replica.state == "draining" || replica.state == "parking";
    is_held |= !service.kept.is_deleted && service.scaler->HasNoReady();
    ++at;
  }
  std::erase_if(probes_, [this](const auto& probe) { return driver_.controller().Find(probe.first) == nullptr; });
  if (services_.empty()) return;
  if (!front_.is_up()) {
    for (const auto& [name, service] : services_) service->load.reset();
    return TickSoon(front_.has_old() ? kTick : kTickWithoutFront);
  }
  is_asking_ = true;
  std::vector<std::string> commands = FrontCommands();
  front_.Ask(std::move(commands), is_full ? "show stat -1 7 -1" : "show stat -1 2 -1",
             [this, is_full, is_held, now](const Result<std::string>& answer) {
               is_asking_ = false;
               if (answer) {
                 OnStat(*answer, is_full, now);
               } else {
                 servers_.clear();  // It is unknown which commands arrived.
                 are_servers_unknown_ = true;
                 for (const auto& [name, service] : services_) service->load.reset();
               }
               TickSoon(!answer ? kTickWithoutFront : is_held ? kTickWhileHeld : kTick);
             });
}

std::string ServiceHost::AddressOf(const JobRecord* record) const {
  if (record == nullptr || !IsActive(record->state)) return "";
  return record->node.empty() ? "127.0.0.1" : ports_.address_of(record->node);
}

ServiceFacts ServiceHost::FactsOf(Service& service, Time now) {
  ServiceFacts facts;
  facts.now = now;
  facts.stat_at = service.kept.is_deleted ? now + Duration(1) : service.stat_at;
  facts.load = service.load;
  facts.is_memory_short = is_memory_short_;
  for (const wire::ServiceReplica& replica : service.kept.replicas) {
    ReplicaFacts& seen = facts.replicas[replica.number];
    const JobRecord* record = driver_.controller().Find(replica.job);
    if (record == nullptr) {
      const auto end = ends_.find(replica.job);
      seen.job = ReplicaFacts::Job::kEnded;
      // The end is reported once it is stored.
      const auto unstored = end == ends_.end() ? driver_.FindUnstored(replica.job) : std::nullopt;
      seen.end = end != ends_.end() ? end->second : unstored ? HowEnded(*unstored) : "ended";
      continue;
    }
    seen.job = IsWaiting(record->state)               ? ReplicaFacts::Job::kWaiting
               : record->state == JobState::kStopping ? ReplicaFacts::Job::kStopping
                                                      : ReplicaFacts::Job::kRunning;
    seen.running_since = record->state == JobState::kStarting ? now : record->started;
    seen.attempt = record->attempt;
    if (replica.state == "starting" && record->state == JobState::kRunning) {
      Probe(service, replica, *record, now);
      const Probed& probe = probes_.at(replica.job);
      seen.answers = probe.answers;
      seen.is_foreign = probe.is_foreign;
    } else {
      probes_.erase(replica.job);
      seen.is_foreign = replica.state == "ready" && record->state == JobState::kRunning &&
                        IsChecked(service, replica, *record) &&
                        ListenerAt(static_cast<std::uint16_t>(replica.port)) != std::int64_t{record->user.uid};
    }
    seen.can_park =
        record->request.is_portioned() && ports_.shares && ports_.shares->Find(record->node, record->id) != nullptr;
    const StatLine* stat = service.StatOf(replica);
    if (stat != nullptr && !service.kept.is_deleted) {  // A deleted service is in no new process.
      seen.in_flight = service.InFlightOf(replica);
      seen.fails_checks = replica.state == "ready" && stat->status.starts_with("DOWN");
    }
    if (front_.has_old()) ++seen.in_flight;  // An earlier process may have requests that nothing counts.
  }
  return facts;
}

std::int64_t ServiceHost::ListenerAt(std::uint16_t port) {
  const auto [known, is_new] = listeners_.try_emplace(port, -1);
  if (is_new) known->second = ListenerAtPort(port);
  return known->second;
}

bool ServiceHost::IsChecked(const Service& service, const wire::ServiceReplica& replica,
                            const JobRecord& record) const {
  // A container may map its user to another one.
  const auto revision = std::ranges::find(service.kept.revisions, replica.revision, &wire::ServiceRevision::number);
  return record.node.empty() && revision != service.kept.revisions.end() &&
         std::ranges::none_of(revision->spec.labels,
                              [](const auto& label) { return label.first.starts_with("container"); });
}

void ServiceHost::Probe(const Service& service, const wire::ServiceReplica& replica, const JobRecord& record,
                        Time now) {
  Probed& probe = probes_[replica.job];
  if (probe.attempt != record.attempt) {
    probe = {};
    probe.attempt = record.attempt;
  }
  const std::string address = AddressOf(&record);
  if (probe.is_under_way || now - probe.at < kProbeEvery || address.empty()) return;
  probe.is_under_way = true;
  probe.at = now;
  const auto port = static_cast<std::uint16_t>(replica.port);
  ProbeReplica(
      loop_, address, port, service.kept.settings.health,
      [this, job = replica.job, attempt = record.attempt, port, is_checked = IsChecked(service, replica, record),
       uid = record.user.uid, alive = is_alive_](bool answers) {
        if (!*alive) return;
        const auto known = probes_.find(job);
        if (known == probes_.end() || known->second.attempt != attempt) return;
        // The process that answered may have closed the port since, but then the owner has it now.
        known->second.is_under_way = false;
        known->second.is_foreign = answers && is_checked && ListenerAtPort(port) != std::int64_t{uid};
        known->second.answers = answers && !known->second.is_foreign;
      });
}

void ServiceHost::FollowEnd(JobId job) {
  const auto waiter = driver_.WaitFor(job, [this, job, alive = is_alive_](const JobRecord& record) {
    if (*alive) ends_[job] = HowEnded(record);
  });
  if (!waiter) ends_[job] = "is not known any more";
}

void ServiceHost::CarryOut(Service& service, const ServiceAction& action) {
  if (action.kind == ServiceAction::Kind::kStart) return StartReplica(service, action.revision, action.reason);
  const auto replica = std::ranges::find(service.kept.replicas, action.replica, &wire::ServiceReplica::number);
  if (replica == service.kept.replicas.end()) return;
  const JobRecord* record = driver_.controller().Find(replica->job);
  if (record == nullptr) return;
  if (action.kind == ServiceAction::Kind::kStop) {
    static_cast<void>(
        driver_.controller().Cancel(replica->job, 0, Duration(-1), action.reason, ServicesCaller(), driver_.Now()));
    driver_.Touch();
    return;
  }
  const bool parks = action.kind == ServiceAction::Kind::kPark;
  ports_.act(*record, parks ? "park" : "wake",
             [this, parks, name = service.name(), number = action.replica, alive = is_alive_](const Status& done) {
               if (!*alive) return;
               const auto found = services_.find(name);
               if (found == services_.end()) return;
               ServiceScaler& scaler = *found->second->scaler;
               parks ? scaler.OnParked(number, done, driver_.Now()) : scaler.OnWoken(number, done, driver_.Now());
             });
}

std::int64_t ServiceHost::FreeReplicaPort() {
  std::set<std::int64_t> used;
  for (const auto& [name, service] : services_) {
    used.insert(service->kept.settings.port);
    for (const wire::ServiceReplica& replica : service->kept.replicas) used.insert(replica.port);
  }
  for (int i = 0; i < kPortTries; ++i) {
    const std::int64_t port =
        std::uniform_int_distribution(kFirstReplicaPort, kFirstReplicaPort + kReplicaPorts - 1)(draws_);
    if (!used.contains(port) && IsPortFree(static_cast<std::uint16_t>(port))) return port;
  }
  // Users may have bound all ports of the usual range.
  const std::int64_t port = KernelPort();
  return used.contains(port) ? 0 : port;
}

void ServiceHost::StartReplica(Service& service, std::int64_t revision, const std::string& reason) {
  wire::KeptService& kept = service.kept;
  const Time now = driver_.Now();
  // Without this, the store would refuse the job and keep the replica.
  if (!driver_.trouble().empty() || starts_ == kMostStarts) return;
  ++starts_;
  std::set<std::int64_t> slots;
  for (const wire::ServiceReplica& replica : kept.replicas) slots.insert(replica.slot);
  wire::ServiceReplica replica;
  for (replica.slot = 1; slots.contains(replica.slot);) ++replica.slot;
  if (replica.slot > SlotsOf(kept.settings)) return;  // All slots are in use; another replica must end first.
  replica.port = FreeReplicaPort();
  if (replica.port == 0)
    return service.scaler->OnStartRefused(
        revision, "no port is free on this machine; end the programs that use thousands of them (ss -tln)", now);
  replica.number = kept.next_replica++;
  replica.revision = revision;
  replica.state = "starting";
  replica.since = ToSeconds(now);
  JobSpec spec = service.FindRevision(revision)->spec;
  const std::string port = std::to_string(replica.port);
  for (std::string& word : spec.command) word = dialect::FillParameters(word, {{"port", port}});
  spec.name = kept.settings.name;
  const bool has_many = driver_.controller().scheduler().has_many();
  for (const std::string& pair :
       {"PORT=" + port, std::string(has_many ? "HOST=0.0.0.0" : "HOST=127.0.0.1"),
        "DIVVY_SERVICE=" + kept.settings.name, "DIVVY_SERVICE_REVISION=" + std::to_string(replica.revision),
        "DIVVY_SERVICE_REPLICA=" + std::to_string(replica.number)})
    dialect::SetEnvironment(spec, pair);
  const auto submitted =
      driver_.controller().Submit(std::move(spec), 0, ports_.caller_of(kept.user), now, driver_.Outcomes());
  if (!submitted) return service.scaler->OnStartRefused(revision, submitted.error().message, now);
  replica.job = submitted->id;
  kept.replicas.push_back(replica);
  service.scaler->AddEvent("replica " + std::to_string(replica.number) + " is job " + ToString(replica.job) +
                               (reason.empty() ? "" : ": " + reason),
                           now);
  service.is_changed = true;
  // The error comes at once, when the job has been withdrawn.
  const auto stored = [this, job = replica.job, name = service.name(), number = replica.number,
                       alive = is_alive_](const Status& status) {
    if (!*alive) return;
    if (status) return FollowEnd(job);
    if (const auto found = services_.find(name); found != services_.end()) found->second->scaler->OnStartLost(number);
  };
  driver_.AfterCommit(stored, ControllerDriver::IfNotStored::kRefuse);
}

void ServiceHost::AddCommands(const Service& service, bool is_canary, std::vector<std::string>& commands) {
  const std::string backend = is_canary ? CanaryBackendOf(service.name()) : BackendOf(service.name());
  const std::int64_t slots = front_.SlotsOf(backend);
  for (std::int64_t slot = 1; are_servers_unknown_ && slot <= slots; ++slot)
    servers_[backend + "/r" + std::to_string(slot)].state.clear();
  std::set<std::int64_t> used;
  for (const wire::ServiceReplica& replica : service.kept.replicas) {
    if (service.IsCanary(replica) != is_canary || replica.slot > slots) continue;  // The next process has it.
    ServerState wanted{AddressOf(driver_.controller().Find(replica.job)), replica.port, "maint"};
    if (wanted.address.empty()) {
      wanted.port = 0;
    } else if (replica.state == "ready") {
      wanted.state = "ready";
    } else if (replica.state == "draining" || replica.state == "parking") {
      wanted.state = "drain";
    }
    used.insert(replica.slot);
    const std::string server = backend + "/r" + std::to_string(replica.slot);
    ServerState& told = servers_[server];
    std::string text = ServerCommands(server, told, wanted);
    if (text.empty()) continue;
    told = wanted;
    commands.push_back(std::move(text));
  }
  // Servers whose replicas are gone.
  for (auto at = servers_.lower_bound(backend + "/"); at != servers_.end() && at->first.starts_with(backend + "/");
       ++at) {
    const auto slot = ParseInteger(std::string_view(at->first).substr(backend.size() + 2)).value_or(0);
    if (slot <= slots && !used.contains(slot) && at->second.state != "maint") {
      at->second.state = "maint";
      commands.push_back("set server " + at->first + " state maint;");
    }
  }
}

std::vector<std::string> ServiceHost::FrontCommands() {
  std::vector<std::string> commands;
  for (const auto& [name, service] : services_) {
    if (service->kept.is_deleted) continue;
    for (const bool is_canary : {false, true}) AddCommands(*service, is_canary, commands);
  }
  are_servers_unknown_ = false;
  return commands;
}

void ServiceHost::OnStat(const std::string& csv, bool is_full, Time sent) {
  const std::vector<StatLine> lines = ParseStat(csv);
  for (const auto& [name, service] : services_) {
    service->canary = {};
    if (!is_full) continue;
    service->slots.clear();
    service->canary_slots.clear();
  }
  std::set<Service*> seen;
  for (const StatLine& line : lines) {
    const bool is_canary = line.proxy.starts_with("c_");
    if (!is_canary && !line.proxy.starts_with("s_")) continue;
    const auto found = services_.find(line.proxy.substr(2));
    if (found == services_.end()) continue;
    Service& service = *found->second;
    if (line.server == "BACKEND") {
      (is_canary ? service.canary : service.total) = line;
      if (!is_canary) seen.insert(&service);
    } else if (const auto slot = line.server.starts_with("r") ? ParseInteger(line.server.substr(1)) : std::nullopt) {
      (is_canary ? service.canary_slots : service.slots)[*slot] = line;
    }
  }
  for (Service* known : seen) {
    Service& service = *known;
    const std::int64_t requests = service.total.requests + service.canary.requests;
    if (is_full) service.stat_at = sent;
    if (is_full && sent - service.counted_at >= std::chrono::milliseconds(500)) {
      const bool is_next = service.counted >= 0 && requests >= service.counted;
      service.per_second =
          is_next ? static_cast<double>(requests - service.counted) / ToSeconds(sent - service.counted_at) : 0;
      service.counted = requests;
      service.counted_at = sent;
    }
    service.load = LoadOf(service);
  }
}

std::optional<double> ServiceHost::LoadOf(Service& service) const {
  const wire::ServiceSettings& settings = service.kept.settings;
  const auto in_flight = static_cast<double>(service.total.in_flight + service.canary.in_flight);
  const bool is_held = service.total.in_flight > 0 && service.scaler->HasNoReady();
  if (settings.requests_per_second > 0) return std::max(service.per_second, is_held ? 1.0 : 0.0);
  if (settings.metric.empty()) return in_flight;
  std::vector<std::optional<double>> values;
  for (const wire::ServiceReplica& replica : service.kept.replicas) {
    if (replica.state != "ready" || service.scaler->IsWaking(replica.number)) continue;
    const JobRecord* record = driver_.controller().Find(replica.job);
    values.push_back(record != nullptr && ports_.metric_of ? ports_.metric_of(*record, settings.metric) : std::nullopt);
  }
  service.metric = SumOfMetric(values);
  service.scaler->OnMetric(service.metric.has_value());
  if (!service.metric) return std::nullopt;
  // Requests keep a replica, whatever the metric is.
  return in_flight > 0 ? std::max(*service.metric, kLeastMetric) : *service.metric;
}

// --- Views -----------------------------------------------------------------------------------------------------------

wire::ServiceCanaryView ServiceHost::CanaryView(const Service& service) const {
  wire::ServiceCanaryView view;
  view.revision = service.kept.canary_revision;
  view.share = service.kept.canary_share;
  for (const wire::ServiceReplica& replica : service.kept.replicas) {
    if (!service.IsCanary(replica)) continue;
    if (replica.state == "ready") ++view.hot;
    if (replica.state == "starting") ++view.starting;
  }
  view.requests = service.canary.requests;
  view.errors = service.canary.errors;
  if (const ServiceTimes* times = times_.Find(CanaryBackendOf(service.name()))) {
    const LatencyHistogram recent = times->RecentAt(driver_.Now()).total;
    view.recent_requests = static_cast<std::int64_t>(recent.count());
    view.latency_p50_s = recent.Quantile(0.5);
    view.latency_p95_s = recent.Quantile(0.95);
    view.latency_p99_s = recent.Quantile(0.99);
  }
  return view;
}

std::pair<double, double> ServiceHost::UseOf(const Service& service) const {
  double gpu_milli = 0;
  double hour_milli = 0;
  for (const wire::ServiceReplica& replica : service.kept.replicas) {
    const JobRecord* record = driver_.controller().Find(replica.job);
    if (record == nullptr || !IsActive(record->state)) continue;
    const double gpus = GpuCountOf(*record) * (static_cast<double>(record->gpu_parts.ten_thousandths()) / 10'000);
    gpu_milli += gpus * 1000;
    hour_milli += gpus * static_cast<double>(driver_.controller().teams().PriceOf(record->gpu_model));
  }
  return {gpu_milli, hour_milli};
}

void ServiceHost::CountUse(const Service& service, Time now) {
  const auto [gpu_milli, hour_milli] = UseOf(service);
  times_.Keep(BackendOf(service.name())).AddUse(now, gpu_milli, hour_milli);
}

const ServiceTimes* ServiceHost::TimesOf(const std::string& name) const { return times_.Find(BackendOf(name)); }

void ServiceHost::Fill(const Service& service, wire::ServiceView& view) const {
  const wire::KeptService& kept = service.kept;
  view.name = service.name();
  view.user = kept.user.name;
  view.state = service.scaler->StateName();
  view.url = UrlOf(service);
  view.has_tls = !kept.certificate.empty();
  view.tokens = static_cast<std::int64_t>(kept.token_hashes.size());
  view.settings = kept.settings;
  view.revision = kept.target_revision;
  for (const wire::ServiceReplica& replica : kept.replicas) {
    if (replica.state == "ready") ++view.hot;
    if (replica.state == "starting") ++view.starting;
    if (replica.state == "parked" || replica.state == "parking") ++view.parked;
    if (replica.state == "draining") ++view.draining;
  }
  view.in_flight = service.total.in_flight + service.canary.in_flight;
  view.queued = (service.scaler->HasNoReady() ? service.total.in_flight : service.total.queued) + service.canary.queued;
  view.requests_per_second = service.per_second;
  view.requests = service.total.requests + service.canary.requests;
  view.errors = service.total.errors + service.canary.errors;
  if (kept.canary_revision != 0) view.canary = CanaryView(service);
  view.metric = service.metric;
  view.queue_time_s = static_cast<double>(service.total.queue_ms) / 1000;
  view.answer_time_s = static_cast<double>(service.total.answer_ms) / 1000;
  if (const ServiceTimes* times = TimesOf(service.name())) {
    const ServiceTimes::Recent recent = times->RecentAt(driver_.Now());
    view.recent_requests = static_cast<std::int64_t>(recent.total.count());
    view.latency_p50_s = recent.total.Quantile(0.5);
    view.latency_p95_s = recent.total.Quantile(0.95);
    view.latency_p99_s = recent.total.Quantile(0.99);
    view.first_byte_p50_s = recent.first.Quantile(0.5);
    view.first_byte_p95_s = recent.first.Quantile(0.95);
    view.first_byte_p99_s = recent.first.Quantile(0.99);
    const auto [gpu_milli, hour_milli] = UseOf(service);
    view.gpus = gpu_milli / 1000;
    if (!driver_.controller().teams().prices().empty()) {
      view.cost_per_hour = hour_milli / 1000;
      if (view.recent_requests > 0)
        view.cost_per_1000_requests = recent.cost * 1000 / static_cast<double>(view.recent_requests);
    }
  }
  for (const wire::ServiceReplica& replica : kept.replicas) {
    const JobRecord* record = driver_.controller().Find(replica.job);
    const auto used = record != nullptr && ports_.gpus_used ? ports_.gpus_used(*record) : std::nullopt;
    if (used) view.gpus_used = view.gpus_used.value_or(0) + *used;
  }
  view.last_wake_s = service.scaler->last_wake_s();
  view.scaled = service.scaler->scaled();
  view.note = service.scaler->Note();
  if (!service.front_trouble.empty()) view.note = service.front_trouble;
  if (!front_.is_up() && !front_.trouble().empty()) view.note = front_.trouble();
  for (const wire::ServiceReplica& replica : kept.replicas) {
    const JobRecord* record = driver_.controller().Find(replica.job);
    if (!view.note.empty() || record == nullptr) continue;
    const std::string& note = service.scaler->NoteOf(replica.number);
    if (!note.empty()) view.note = "replica " + std::to_string(replica.number) + ": " + note;
    else if (IsWaiting(record->state))
      view.note = "replica " + std::to_string(replica.number) + " (job " + ToString(replica.job) +
                  "): " + driver_.controller().WaitingReason(*record);
  }
  const ServiceTimes* times = TimesOf(service.name());
  const std::int64_t too_large = times == nullptr ? 0 : times->RecentAt(driver_.Now()).too_large;
  if (view.note.empty() && too_large > 0)
    view.note = Plural(too_large, "request") +
                " in the last 5 min got 413, because the body is larger than --max-body " +
                std::to_string(kept.settings.max_body_bytes) + " bytes";
}

std::vector<wire::ServiceView> ServiceHost::List() const {
  std::vector<wire::ServiceView> views;
  for (const auto& [name, service] : services_) Fill(*service, views.emplace_back());
  return views;
}

Result<wire::ServiceDetail> ServiceHost::Show(const std::string& name, const Caller& caller) const {
  const auto found = services_.find(name);
  if (found == services_.end()) return NotThere(name);
  const Service& service = *found->second;
  const wire::KeptService& kept = service.kept;
  const bool is_own = caller.is_admin || caller.user.uid == kept.user.uid;
  wire::ServiceDetail view;
  Fill(service, view);
  for (const wire::ServiceReplica& replica : kept.replicas) {
    wire::ServiceReplicaView& row = view.replicas.emplace_back();
    const JobRecord* record = driver_.controller().Find(replica.job);
    row.job = replica.job;
    row.number = replica.number;
    row.revision = replica.revision;
    row.state = replica.state == "starting" && record != nullptr && IsWaiting(record->state) ? "queued"
                : replica.state == "ready" && service.scaler->IsWaking(replica.number)       ? "waking"
                                                                                             : replica.state;
    row.since = replica.since;
    if (const std::string address = AddressOf(record); !address.empty())
      row.address = address + ":" + std::to_string(replica.port);
    row.in_flight = service.InFlightOf(replica);
    row.note = service.scaler->NoteOf(replica.number);
    if (row.note.empty() && record != nullptr && IsWaiting(record->state))
      row.note = driver_.controller().WaitingReason(*record);
  }
  for (const wire::ServiceRevision& revision : kept.revisions) {
    wire::ServiceRevisionView& row = view.revisions.emplace_back();
    row.number = revision.number;
    const bool is_target = revision.number == kept.target_revision;
    row.state = revision.was_withdrawn                    ? "withdrawn"
                : !revision.note.empty()                  ? "failed"
                : revision.number == kept.canary_revision ? "canary"
                : is_target                               ? (revision.was_healthy ? "current" : "new")
                : revision.was_healthy                    ? "healthy"
                                                          : "never started";
    if (is_own) row.command = CommandText(revision.spec);
    row.made = revision.made;
    row.note = revision.note;
  }
  view.events.assign(service.scaler->events().begin(), service.scaler->events().end());
  return view;
}

Result<wire::ServiceDefinition> ServiceHost::DefinitionOf(const std::string& name, const Caller& caller) const {
  DIVVY_TRY(Service * service, FindOwn(name, caller, "read the definition of"));
  return wire::ServiceDefinition{service->kept.settings, service->target()->spec, {}, false};
}

wire::WhyView ServiceHost::WhyOf(const std::string& name) const {
  const Service& service = *services_.at(name);
  wire::ServiceView seen;
  Fill(service, seen);
  wire::WhyView view;
  view.display_id = view.name = name;
  view.user = seen.user;
  view.state = seen.state;
  const std::string now =
      seen.state == "hot"        ? Plural(seen.hot, "replica") + (seen.hot == 1 ? " is ready" : " are ready")
      : seen.state == "starting" ? "no replica answers yet"
      : seen.state == "parked"   ? "its GPU memory is on the host, and the next request wakes it"
      : seen.state == "updating" ? "replicas of two revisions run"
      : seen.state == "canary"   ? "a canary gets " + PercentText(service.kept.canary_share) + " of the requests"
      : seen.state == "failing"  ? "no replica answers"
      : seen.state != "cold"     ? "its replicas end when their requests are answered"
      : service.kept.settings.min_replicas == 0 ? "it has no replica, and the next request starts one"
                                                : "it has no replica, and one is started soon";
  view.summary = "Service " + name + " is " + seen.state + ": " + now + ".";
  if (!seen.note.empty()) view.summary += " The problem: " + seen.note + ".";
  else if (!seen.scaled.empty()) view.summary += " Its last decision: " + seen.scaled + ".";
  return view;
}

std::string ServiceHost::NoteOfJob(JobId job) const {
  for (const auto& [name, service] : services_) {
    for (const wire::ServiceReplica& replica : service->kept.replicas) {
      if (replica.job != job) continue;
      const std::string& own = service->scaler->NoteOf(replica.number);
      const std::string note = own.empty() ? service->scaler->Note() : own;
      return "replica " + std::to_string(replica.number) + " of service " + name + ": " + replica.state +
             (note.empty() ? "" : "; " + note);
    }
  }
  return "";
}

}  // namespace divvy
