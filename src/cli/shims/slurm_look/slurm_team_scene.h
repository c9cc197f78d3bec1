// Data from the daemon and this machine that the accounting commands (sacctmgr, sshare) need.
#pragma once

#include "base/result.h"
#include "cli/client/api.h"
#include "cli/shims/slurm_look/slurm_teams.h"

namespace divvy::cli::slurm {

Result<wire::TeamsView> FetchTeams(Api& api);
TeamScene TeamSceneOf(Api& api);

/// -n, -p, -P, --delimiter, as the accounting commands define them.
struct TableFlags {
  bool has_no_header = false;
  bool is_parsable = false;
  bool is_parsable2 = false;
  std::string delimiter;

  TableStyle style() const;
};

}  // namespace divvy::cli::slurm
