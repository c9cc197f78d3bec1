// Parses divvy.toml. Everything in it is optional and checked. A wrong file gives one error with the line, and the
// daemon does not start with it: a misspelt limit would be no limit.
//
// docs/configuration.md describes each key; packaging/divvy.toml has all keys with their defaults, as comments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_port.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "engine/policy.h"
#include "engine/pool_row.h"
#include "model/container_plan.h"
#include "model/gpus/gpu.h"
#include "model/isolation_wishes.h"
#include "model/notify.h"
#include "model/provider.h"
#include "model/team.h"
#include "model/waste_rules.h"

namespace divvy::dialect {

struct Config {
  // [daemon]
  std::string log_level = "info";  // "trace" | "debug" | "info" | "warning" | "error" | "off"

  // [gpus]
  std::optional<GpuSet> use;     // nullopt: all GPUs. The other GPUs are restricted from the start.
  std::string emulate;           // A specification or a description file of emulated GPUs. Empty: this machine's GPUs.
  Bytes ignore_unmanaged_below;  // 0: every process that divvy did not start makes its GPU unavailable.
  MigUse mig = MigUse::kUse;     // How MIG is handled.
  Duration poll = 1s;            // Interval for polling the GPUs: 100 ms to 1 h.

  // [queue]
  Policy policy;  // policy, escalate_after, placement, cpu_jobs_at_once, usage_half_life; and [preemption]
  std::uint64_t max_queued = 1'000'000;
  std::uint64_t max_queued_of_user = 10'000;  // For each user who is not an administrator.

  // [jobs]; 0 means no limit, and keep forever.
  Duration default_time_limit{0};
  Duration max_time_limit{0};
  Duration grace = 30s;            // For jobs without their own.
  bool root_jobs = false;          // The machine's daemon or agent may run jobs of uid 0.
  std::int64_t lowest_uid = 1000;  // Lower uids are system users; the launcher runs no jobs as them.
  Duration keep_finished = std::chrono::hours(24) * 90;
  Duration keep_logs = std::chrono::hours(24) * 30;
  Bytes log_limit;  // The newest part of each log that divvy keeps: at least 1 MiB, or 0: all of it.

  // [samples]
  bool takes_samples = true;
  Duration sample_every = 1s;  // 1 s to 1 min.
  Bytes most_samples = 2_GiB;  // Disk limit for stored samples; at least 10 MiB.

  bool has_dcgm_names = false;  // [metrics]: exports GPUs also under the names of NVIDIA's exporter.

  WasteRules waste;  // [waste]

  NotifySettings notify;  // [notify], [notify.NAME]

  IsolationWishes isolation;  // [isolation]

  ContainerSettings container;  // [container]

  // [controller]
  std::optional<HostPort> listen;  // Address for other machines, over TLS; nullopt: none.
  bool has_standbys = false;       // Several controllers use the same store; one leads.
  std::string name;                // Its address for others: "gpu1.lab" or "gpu1.lab:7433". Empty: this host's name.
  Duration lost_after = 30s;       // A node that is silent for this long counts as lost.
  Duration requeue_lost_after{0};  // Then its jobs, which the node has stopped by then, may run on other nodes. 0: they
                                   // stay.

  std::string store_url;  // [store]: a database of PostgreSQL. Empty: SQLite in the state folder. May hold a password.

  bool users_may_raise = false;    // [priorities]: users may give their jobs a priority above 0.
  bool hides_others_jobs = false;  // [privacy]: only owners see their jobs' names, commands and reasons.

  // [ui]: the page for browsers.
  bool has_ui = true;
  std::optional<HostPort> ui_listen;  // On this machine's loopback; nullopt: any port, when a user requests a link.
  bool is_ui_remote = false;          // Also over TLS, at `listen`.

  // [services]
  std::string haproxy;           // The program of the front. Empty: the usual place.
  std::string services_address;  // Where the front listens. Empty: 127.0.0.1 for a private daemon, else
                                 // all addresses.

  // [admin]; root and the daemon's user are always administrators.
  std::vector<std::string> admin_users;
  std::vector<std::string> admin_groups;

  std::vector<PoolRow> pools;  // [pools.NAME]; the caller checks rules between rows.

  std::vector<Provider> providers;  // [[providers]]; also read by divvy simulate --providers.

  TeamsFile teams;  // [teams], [teams.NAME], [users.NAME], [prices]; the caller checks rules between rows.

  std::vector<std::string> notes;  // Old names of keys in the file, for its administrator. Not compared.

  friend bool operator==(const Config& a, const Config& b);
};

/// `path` is used in errors only: "divvy.toml:7: unknown key 'polcy' in [queue]; did you mean 'policy'?".
Result<Config> ParseConfig(std::string_view toml, std::string_view path);

/// "0-3", "0,2" or "all" (nullopt): GPU indices from 0 to 63.
Result<std::optional<GpuSet>> ParseGpuSet(std::string_view text);

}  // namespace divvy::dialect
