// Functions that both submitting and explaining a script use. Internal to this folder.
#pragma once

#include <string_view>

#include "base/result.h"

namespace divvy::dialect {

/// Refuses texts that are no script: an empty one, a binary, Windows line ends.
Status CheckScriptText(std::string_view text, std::string_view path);

/// The kind of the script's option lines: none or only "# DIVVY", "#SBATCH", or "# GFLOW". "# DIVVY" lines are allowed
/// in every kind and take precedence.
enum class ScriptKind { kPlain, kSlurm, kGflow };
ScriptKind FindScriptKind(std::string_view text);

}  // namespace divvy::dialect
