#include "cli/shims/slurm_look/slurm_team_scene.h"

#include <grp.h>
#include <unistd.h>

#include <algorithm>

#include "cli/client/shown_answer.h"
#include "cli/shims/slurm_look/slurm_common.h"

namespace divvy::cli::slurm {

Result<wire::TeamsView> FetchTeams(Api& api) {
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/teams", ""));
  return DecodeShown<wire::TeamsView>(text);
}

TeamScene TeamSceneOf(Api& api) {
  TeamScene scene;
  scene.user = CallerName();
  scene.host = Hostname();
  if (const auto status = api.Status()) scene.owner = status->user;
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> ids(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (count > 0) ids.resize(static_cast<std::size_t>(std::max(::getgroups(count, ids.data()), 0)));
  ids.push_back(::getegid());
  for (const gid_t id : ids) {
    if (const group* row = ::getgrgid(id)) scene.groups.emplace_back(row->gr_name);
  }
  return scene;
}

}  // namespace divvy::cli::slurm
