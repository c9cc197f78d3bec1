// What others see of a process that was forked and not executed, and what it has open.
#pragma once

#include <string>

namespace divvy {

/// Room for a title and a variable, as an entry of the environment of whoever is to be forked later.
std::string TitleRoom();

/// What ps and pgrep show of this process from now on is `line`, and what its environment shows to others is `variable`
/// (NAME=value) alone; both are cut where there is no room. A fork has those of what it was forked from: whoever looks
/// for that by its name would find this. What `environ` was when this program was executed must not be used any more.
void ShowProcessAs(const std::string& line, const std::string& variable);

/// Closes every descriptor from `first` on.
void CloseFrom(int first);

}  // namespace divvy
