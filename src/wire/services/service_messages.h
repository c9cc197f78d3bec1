// The messages of services (/v1/services), and their rows in the store. See wire/messages/messages.h for the
// conventions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

/// The settings of a service. Durations are in seconds.
struct ServiceSettings {
  std::string name;                // Lower-case letters, digits and dashes.
  std::int64_t port = 0;           // Where the front listens. 0: divvy chooses a free one.
  std::int64_t min_replicas = 1;   // Kept alive, hot or parked. 0: may be stopped entirely.
  std::int64_t max_replicas = 1;   // Without those that only an update needs for a moment.
  std::int64_t concurrency = 1;    // Requests that a replica gets at a time; more wait in the front's queue.
  double target = 0;               // Requests in flight per replica to scale for. 0: 0.7 of `concurrency`.
  double requests_per_second = 0;  // Above 0: replicas for this many requests per second each, instead of `target`.
  std::string metric;     // `target` is of this metric, which the replicas report. Empty: of requests in flight.
  std::string health;     // Path of a health check over HTTP. Empty: the port accepts connections.
  double idle_s = 600;    // Without requests for this long, the last replica is parked or stopped.
  double up_delay_s = 0;  // More replicas must be needed for this long, and fewer for this long.
  double down_delay_s = 300;
  double ready_within_s = 600;      // From the start of its process until a replica is ready.
  double wait_s = 60;               // How long the front holds a request that no replica takes.
  double answer_within_s = 300;     // How long a replica may be silent while it answers.
  double wake_within_s = 0;         // A parked replica that needs longer than this to wake is reported. 0: never.
  std::int64_t max_body_bytes = 0;  // Announced size of a request's body. 0: no limit.
  bool parks = true;                // Idle replicas with GPU fractions are parked, not stopped.

  friend bool operator==(const ServiceSettings&, const ServiceSettings&) = default;
};

/// A version of what the replicas run.
struct ServiceRevision {
  std::int64_t number = 0;
  JobSpec spec;
  double made = 0;
  bool was_healthy = false;    // A replica of it was ready once.
  std::string note;            // Why it was given up.
  bool was_withdrawn = false;  // It was given up, as a canary, without having failed.
};

/// Secrets in a request. They are in no answer and in no log. Empty members change nothing.
struct ServiceSecrets {
  std::string certificate;  // PEM: the certificate, those of its issuers, and the key. The front speaks TLS then.
  std::vector<std::string> tokens;  // The requests that the front takes have one of these: the whole set, at most 16.
  bool makes_token = false;         // Adds a token, which the answer shows once.
  bool removes_certificate = false;
  bool removes_tokens = false;  // Before others are added.
};

/// The body of POST /v1/services and POST /v1/services/NAME, and the answer of GET /v1/services/NAME/definition.
struct ServiceDefinition {
  ServiceSettings settings;
  JobSpec spec;
  ServiceSecrets secrets;   // Only in requests.
  double canary = 0;        // Only in requests: this share of the requests (0 to 1) gets the new revision. 0: all.
  bool keeps_same = false;  // A request that differs from the service only in the captured environment changes nothing.
};

/// A replica as the store keeps it.
struct ServiceReplica {
  JobId job;
  std::int64_t number = 0;  // Unique in the service.
  std::int64_t revision = 0;
  std::int64_t port = 0;
  std::int64_t slot = 0;  // Its server in the front.
  std::string state;      // "starting", "ready", "parking", "parked", "draining"
  double since = 0;
};

/// A row of the store.
struct KeptService {
  User user;
  ServiceSettings settings;
  std::vector<ServiceRevision> revisions;  // Oldest first.
  std::int64_t target_revision = 0;
  std::int64_t canary_revision = 0;  // Gets `canary_share` of the requests. 0: there is none.
  double canary_share = 0;
  std::int64_t next_replica = 1;
  std::vector<ServiceReplica> replicas;
  std::vector<std::string> token_hashes;  // SHA-256, in capital letters. Empty: everybody may use the service.
  std::string certificate;                // The name of the file with certificate and key. Empty: no TLS.
  std::string sealed_certificate;         // Its content for other controllers, which have the same identity.
  bool is_deleted = false;                // It is removed once its replicas have ended.
};

struct ServiceReplicaView {
  JobId job;
  std::int64_t number = 0;
  std::int64_t revision = 0;
  std::string state;    // "queued", "starting", "ready", "parking", "parked", "waking", "draining"
  std::string address;  // Where it listens. Empty: it has no node yet.
  std::int64_t in_flight = 0;
  double since = 0;
  std::string note;
};

struct ServiceEvent {
  double at = 0;
  std::string text;
};

struct ServiceRevisionView {
  std::int64_t number = 0;
  std::string state;  // "current", "new", "canary", "healthy", "failed", "withdrawn", "never started"
  std::string command;
  double made = 0;
  std::string note;
};

/// A revision that gets a share of the requests until it is promoted or rolled back.
struct ServiceCanaryView {
  std::int64_t revision = 0;
  double share = 0;  // 0 to 1.
  std::int64_t hot = 0;
  std::int64_t starting = 0;
  // Since the front's last start or change.
  std::int64_t requests = 0;
  std::int64_t errors = 0;
  // As in ServiceView, of its requests only.
  std::int64_t recent_requests = 0;
  std::optional<double> latency_p50_s;
  std::optional<double> latency_p95_s;
  std::optional<double> latency_p99_s;
};

struct ServiceView {
  std::string name;
  std::string user;
  std::string state;  // "cold", "parked", "starting", "hot", "updating", "canary", "failing", "deleting"
  std::string url;
  ServiceSettings settings;
  std::int64_t revision = 0;
  std::optional<ServiceCanaryView> canary;
  std::int64_t hot = 0;
  std::int64_t starting = 0;
  std::int64_t parked = 0;
  std::int64_t draining = 0;
  bool has_tls = false;
  std::int64_t tokens = 0;  // How many there are. 0: everybody who reaches the port may use the service.
  // From the front, since its last start or change.
  std::int64_t in_flight = 0;
  std::int64_t queued = 0;  // Requests among them that wait for a replica.
  double requests_per_second = 0;
  std::int64_t requests = 0;
  std::int64_t errors = 0;       // Answers with a status from 500 on.
  std::optional<double> metric;  // The sum of settings.metric over the replicas. Null: unknown.
  double queue_time_s = 0;       // Means over the last 1,024 requests.
  double answer_time_s = 0;
  // The requests that replicas answered in the present minute and the four before. Null: there were none.
  std::int64_t recent_requests = 0;
  std::optional<double> latency_p50_s;  // From the first byte of the request to the last of the answer.
  std::optional<double> latency_p95_s;
  std::optional<double> latency_p99_s;
  std::optional<double> first_byte_p50_s;  // To the first byte of the answer.
  std::optional<double> first_byte_p95_s;
  std::optional<double> first_byte_p99_s;
  double gpus = 0;                               // Guaranteed to the replicas that run, hot or parked.
  std::optional<double> gpus_used;               // Mean use over the last minute. Null: it is unknown.
  std::optional<double> cost_per_hour;           // Of `gpus`, where GPU prices are configured.
  std::optional<double> cost_per_1000_requests;  // Over the time of recent_requests.
  double last_wake_s = 0;                        // How long the last parked replica took to wake. 0: none did.
  std::string scaled;                            // The last change of the number of replicas, with its reason.
  std::string note;                              // The present problem. Empty: none.
};

struct ServiceDetail : ServiceView {
  std::vector<ServiceReplicaView> replicas;
  std::vector<ServiceRevisionView> revisions;
  std::vector<ServiceEvent> events;  // Oldest first; since the controller's start.
};

struct ServiceScale {
  std::int64_t min_replicas = 0;
  std::int64_t max_replicas = 0;
};
struct ServiceRollback {
  std::int64_t revision = 0;  // 0: the healthy one before the present.
};

}  // namespace divvy::wire
