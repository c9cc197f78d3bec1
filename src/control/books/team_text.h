// The text form of team and user rows for the store: one line per field that is set.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/team.h"

namespace divvy {

std::string FormatTeam(const TeamRow& row);
std::string FormatUser(const UserRow& row);
/// Parse the text of a team's (or user's) row of the store. Return nullopt if the text is empty. Keys of later versions
/// are ignored.
std::optional<TeamRow> ParseTeam(std::string_view name, std::string_view text);
std::optional<UserRow> ParseUser(std::string_view user, std::string_view text);

}  // namespace divvy
