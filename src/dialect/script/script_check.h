// Shared parts of submitting and explaining a script. Internal to this folder.
#pragma once

#include <string_view>

#include "base/result.h"

namespace divvy::dialect {

/// Refuses texts that are no script: an empty one, a binary, Windows line ends.
Status CheckScriptText(std::string_view text, std::string_view path);

/// The dialect of the script's option lines. "# DIVVY" lines may accompany each kind, and win.
enum class ScriptKind { kPlain, kSlurm, kGflow };
ScriptKind FindScriptKind(std::string_view text);

}  // namespace divvy::dialect
