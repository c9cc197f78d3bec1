// The tables of divvy.toml that are about teams: [teams] and [teams.NAME], [users.NAME], [prices].
#pragma once

#include <string>

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "model/team.h"

namespace divvy::dialect {

/// True if the entry's section is one of these.
bool IsOfTeams(const ConfigEntry& entry);
/// Puts it into `file`. An error says what is wrong without the line, which the caller knows.
Status ReadTeamsEntry(const ConfigEntry& entry, TeamsFile& file);

/// What an entry says of other tables, once all of them are read: a parent, or a user's team, is a team of the file.
Status CheckTeamsEntry(const ConfigEntry& entry, const TeamsFile& file);

}  // namespace divvy::dialect
