// The tables of divvy.toml for teams: [teams] and [teams.NAME], [users.NAME], [prices].
#pragma once

#include <string>

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "model/team.h"

namespace divvy::dialect {

/// True if the entry belongs to one of the sections for teams.
bool IsOfTeams(const ConfigEntry& entry);
/// Applies the entry to `file`. The error does not name the line; the caller adds it.
Status ReadTeamsEntry(const ConfigEntry& entry, TeamsFile& file);

/// Checks an entry's references after all entries are read: a parent, or a user's team, must be a team of the file.
Status CheckTeamsEntry(const ConfigEntry& entry, const TeamsFile& file);

}  // namespace divvy::dialect
