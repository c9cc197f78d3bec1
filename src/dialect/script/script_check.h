// What submitting and explaining a script have in common. Internal to this folder.
#pragma once

#include <string_view>

#include "base/result.h"

namespace divvy::dialect {

/// Refuses what no interpreter could read: nothing, a program, Windows line ends.
Status CheckScriptText(std::string_view text, std::string_view path);

/// Whose option lines it carries. "# DIVVY" lines go with each kind, and win.
enum class ScriptKind { kPlain, kSlurm, kGflow };
ScriptKind FindScriptKind(std::string_view text);

}  // namespace divvy::dialect
