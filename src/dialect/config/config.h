// divvy.toml: everything in it is optional, and everything in it is checked. A wrong file is one error that names the
// line, and the daemon does not start on it: a limit that was misspelt would be no limit.
//
// docs/configuration.md describes each key; packaging/divvy.toml has all of them with their defaults, as comments.
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
#include "model/team.h"
#include "model/waste_rules.h"

namespace divvy::dialect {

struct Config {
  // [daemon]
  std::string log_level = "info";  // "trace" | "debug" | "info" | "warning" | "error" | "off"

  // [gpus]
  std::optional<GpuSet> use;     // Nothing: all. The others are restricted from the start.
  std::string emulate;           // A specification or a description file; empty: this machine's GPUs.
  Bytes ignore_unmanaged_below;  // 0: every process that divvy did not start takes its GPU away.
  MigUse mig = MigUse::kUse;     // What is done with MIG.
  Duration poll = 1s;            // Between two looks at the GPUs. 100 ms to 1 h.

  // [queue]
  Policy policy;  // policy, escalate_after, placement, cpu_jobs_at_once, usage_half_life; and [taking_back]
  std::uint64_t max_queued = 1'000'000;
  std::uint64_t max_queued_of_user = 10'000;  // Of each user who is no administrator.

  // [jobs]; 0 is no limit, and for ever.
  Duration default_time_limit{0};
  Duration max_time_limit{0};
  Duration grace = 30s;            // For jobs that name none.
  bool root_jobs = false;          // The machine's daemon, or agent, runs jobs of uid 0.
  std::int64_t lowest_uid = 1000;  // Below it are system users, as whom the launcher runs nothing.
  Duration keep_finished = std::chrono::hours(24) * 90;
  Duration keep_logs = std::chrono::hours(24) * 30;
  Bytes log_limit;  // Of each log that divvy keeps, the newest; 1 MiB at least, or 0: all of it.

  // [samples]
  bool takes_samples = true;
  Duration sample_every = 1s;  // 1 s to 1 min.
  Bytes most_samples = 2_GiB;  // Of what is kept of them on disk; 10 MiB at least.

  bool has_dcgm_names = false;  // [metrics]: GPUs also under the names of NVIDIA's exporter.

  WasteRules waste;  // [waste]

  NotifySettings notify;  // [notify], [notify.NAME]

  IsolationWishes isolation;  // [isolation]

  ContainerSettings container;  // [container]

  // [controller]
  std::optional<HostPort> listen;  // For other machines, over TLS; nothing: for none.
  std::string name;                // How others reach it: "gpu1.lab" or "gpu1.lab:7433"; empty: by this host's name.
  Duration lost_after = 30s;       // A node that is not heard from for so long counts as lost.
  Duration requeue_lost_after{0};  // Then its jobs, which it has stopped by then, may run elsewhere; 0: they stay.

  bool users_may_raise = false;    // [priorities]: users may give their jobs a priority above 0.
  bool hides_others_jobs = false;  // [privacy]: names, commands and reasons of jobs are for their owners.

  // [ui]: the page for browsers.
  bool has_ui = true;
  std::optional<HostPort> ui_listen;  // On this machine's loopback; nothing: any port, when somebody asks for a link.
  bool is_ui_remote = false;          // Over TLS too, where `listen` is.

  // [admin]; root is one in any case, and so is the user whose daemon it is.
  std::vector<std::string> admin_users;
  std::vector<std::string> admin_groups;

  std::vector<PoolRow> pools;  // [pools.NAME]; as `teams`.

  TeamsFile teams;  // [teams], [teams.NAME], [users.NAME], [prices]; what holds between rows is checked by their user.

  friend bool operator==(const Config& a, const Config& b);
};

/// `path` is only for the errors: "divvy.toml:7: unknown key 'polcy' in [queue]; did you mean 'policy'?".
Result<Config> ParseConfig(std::string_view toml, std::string_view path);

/// "0-3", "0,2", "all" (nothing): GPU indices from 0 to 63.
Result<std::optional<GpuSet>> ParseGpuSet(std::string_view text);

}  // namespace divvy::dialect
