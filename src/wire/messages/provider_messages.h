// The messages of providers of nodes: those of the protocol with their programs (docs/providers.md), and those of
// GET /v1/providers and POST /v1/providers/NAME/ACTION. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divvy::wire {

/// The shape of a node to create.
struct ProviderOrderShape {
  std::string name;
  std::string gpu_model;
  std::int64_t gpus = 0;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::vector<std::string> labels;
  double max_lifetime_s = 0;  // 0: no limit.
  bool is_spot = false;
  std::vector<std::string> options;
};

/// The standard input of a provider's program.
struct ProviderOrder {
  std::int64_t version = 1;
  std::string cluster;  // The tag of all nodes of this cluster: lower-case letters and digits.
  std::string provider;
  std::vector<std::string> options;
  std::string token;                        // create and destroy: 32 hexadecimal digits.
  std::string instance;                     // destroy; empty: whatever was created for the token.
  std::string name;                         // create: the name that the node's agent must have.
  std::string join;                         // create: the line with which that agent joins. Secret.
  std::optional<ProviderOrderShape> shape;  // create.
};

/// The standard output of create.
struct ProviderCreated {
  std::string instance;
};
struct ProviderListed {
  std::string cluster;
  std::string token;
  std::string instance;
  std::optional<double> ends_at;  // The provider will remove the node then, in seconds since 1970. Its jobs are warned.
  std::string state;              // "pending": it waits at the provider and has not started yet. Otherwise it has.
};
/// The standard output of list: all nodes with the cluster's tag.
struct ProviderList {
  std::vector<ProviderListed> nodes;
};

struct ProviderNodeView {
  std::string node;
  std::string shape;
  std::string state;  // "requested", "booting", "joined", "draining", "destroying".
  std::string instance;
  double requested = 0;
  double joined = 0;  // 0: its agent has not joined.
  double expected = 0;
  double hourly = 0;
  double cost = 0;  // Since its request.
  std::string why;  // Why it is being returned.
};
struct ProviderView {
  std::string name;
  std::string kind;
  std::string state;  // "enabled", "disabled", "drained", "off" (in the configuration), "failing".
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;
  std::int64_t unrequested = 0;  // Nodes with the cluster's tag that nobody requested; they are destroyed.
  double hourly = 0;
  double this_month = 0;
  std::optional<std::int64_t> max_nodes;
  std::optional<std::int64_t> max_gpus;
  std::optional<double> max_per_hour;
  std::optional<double> max_per_month;
  std::string last_error;
  double last_error_at = 0;
  double next_try = 0;  // 0: it is not failing.
  std::vector<ProviderNodeView> list;
};

/// POST /v1/providers.
struct ProviderRequest {
  std::string name;
  std::string action;  // "enable", "disable", "drain".
};

}  // namespace divvy::wire
