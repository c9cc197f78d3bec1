// Data from the daemon and this machine that the accounting commands (sacctmgr, sshare) need.
#pragma once

#include "base/result.h"
#include "cli/client/api.h"
#include "cli/shims/slurm_look/slurm_teams.h"

namespace divvy::cli::slurm {

Result<wire::TeamsView> FetchTeams(Api& api);
TeamScene TeamSceneOf(Api& api);

}  // namespace divvy::cli::slurm
