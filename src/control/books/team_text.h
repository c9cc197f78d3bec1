// Rows of teams and users as the texts that the store keeps: a line for each thing that is said.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/team.h"

namespace divvy {

std::string FormatTeam(const TeamRow& row);
std::string FormatUser(const UserRow& row);
/// Nothing where the text cannot be read. What a later version added is passed over.
std::optional<TeamRow> ParseTeam(std::string_view name, std::string_view text);
std::optional<UserRow> ParseUser(std::string_view user, std::string_view text);

}  // namespace divvy
