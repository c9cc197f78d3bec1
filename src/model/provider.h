// Providers of nodes on demand: the shapes that they offer, their prices and their limits ([[providers]] in
// divvy.toml).
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/units.h"

namespace divvy {

/// An amount of money in millionths of the currency unit, so that sums are exact. The currency is the administrator's.
class Money {
 public:
  constexpr Money() = default;
  constexpr explicit Money(std::int64_t micros) : micros_(micros) {}

  constexpr std::int64_t micros() const { return micros_; }
  constexpr double units() const { return static_cast<double>(micros_) / 1e6; }

  friend constexpr auto operator<=>(Money, Money) = default;
  friend constexpr Money operator+(Money a, Money b) { return Money(a.micros_ + b.micros_); }
  friend constexpr Money operator-(Money a, Money b) { return Money(a.micros_ - b.micros_); }
  friend constexpr Money operator*(Money a, std::int64_t count) { return Money(a.micros_ * count); }
  constexpr Money& operator+=(Money other) { return *this = *this + other; }
  constexpr Money& operator-=(Money other) { return *this = *this - other; }

 private:
  std::int64_t micros_ = 0;
};

/// The cost of `duration` at a price per hour, rounded to the nearest millionth.
inline Money CostOf(Money hourly, Duration duration) {
  return Money(std::llround(static_cast<double>(hourly.micros()) * ToSeconds(duration) / 3600));
}

/// How nodes are created and removed.
enum class ProviderKind {
  kCommand,  // Three executables: create, list, destroy.
  kSlurm,
  kKubernetes,
};
constexpr std::string_view Name(ProviderKind kind) {
  constexpr std::string_view kNames[] = {"command", "slurm", "kubernetes"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// A kind of node that a provider can create.
struct NodeShape {
  std::string name;  // "p3.2xlarge"; unique within its provider.
  std::string gpu_model;
  int gpus = 0;  // 0: a node without GPUs; then `gpu_model` is empty.
  int cpus = 0;
  Bytes memory;
  std::vector<std::string> labels;   // The node's features, for --constraint.
  Money hourly;                      // Above 0.
  Duration startup{0};               // From the request until the node takes jobs.
  Duration max_lifetime{0};          // The provider then removes the node. 0: no limit.
  bool is_spot = false;              // The provider may remove the node at any time.
  std::vector<std::string> options;  // Like Provider::options, for this shape.

  friend bool operator==(const NodeShape&, const NodeShape&) = default;
};

/// Upper bounds over all nodes that a provider has at one time, including those on their way. Not set: no limit.
struct ProviderLimits {
  std::optional<int> nodes;
  std::optional<int> gpus;
  std::optional<Money> hourly;
  std::optional<Money> monthly;

  friend bool operator==(const ProviderLimits&, const ProviderLimits&) = default;
};

struct Provider {
  std::string name;  // Unique.
  ProviderKind kind = ProviderKind::kCommand;
  bool is_enabled = true;  // False: gets no new nodes.
  ProviderLimits limits;
  Duration billing_period{0};    // Use is billed in whole periods. 0: by the second.
  Duration min_lifetime = 5min;  // A node is not returned earlier, so that nodes do not come and go.
  std::optional<Duration> idle;  // A node is not returned before it has been idle for this long. Not set: the default.
  std::vector<std::string> teams;    // Teams whose jobs may use it. Empty: all.
  std::vector<std::string> pools;    // Likewise for pools.
  std::vector<std::string> command;  // Its program, an absolute path, and arguments; "create" and so on follow.
  std::string credentials;           // A file that only the program reads. Optional.
  std::vector<std::string> options;  // For the program, as they are: arguments of sbatch, for example.
  Duration timeout = 2min;           // A call that takes longer is killed.
  Duration poll = 30s;               // The time between two lists of its nodes.
  std::vector<NodeShape> shapes;     // At least one.

  friend bool operator==(const Provider&, const Provider&) = default;
};

}  // namespace divvy
