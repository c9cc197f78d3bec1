// divvy serve: services that answer requests.
#pragma once

#include "cli/client/commands.h"

namespace divvy::cli {

int ServeMain(const Words& words);
std::vector<dialect::Option> ServeOptions();

}  // namespace divvy::cli
