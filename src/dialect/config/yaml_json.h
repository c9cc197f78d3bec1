// YAML as JSON, for files that other programs read as either: Kubernetes' configuration and pod templates.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::dialect {

/// The first document of `text` as one JSON value. Unquoted scalars are typed as in the JSON schema of YAML 1.2, so
/// "yes" is a string, except octal numbers such as 0400. Fails with kInvalidArgument and the line for text that is not
/// YAML, has keys that are no text, is nested deeper than 64 levels or, with its aliases expanded, longer than 4 MiB.
/// The message quotes nothing of the text, which may contain secrets.
Result<std::string> YamlToJson(std::string_view text);

}  // namespace divvy::dialect
