// The text form of a node's row for the store: one line per field, a key and the rest of the line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "control/books/node_registry.h"

namespace divvy {

std::string FormatNode(const NodeRow& row);
/// Returns nothing if the text is not a valid row. Unknown keys are ignored.
std::optional<NodeRow> ParseNode(std::string_view name, std::string_view text);

}  // namespace divvy
