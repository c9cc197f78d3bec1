// A node's row as text for the store: a word and the rest of the line, a line for each field.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "control/books/node_book.h"

namespace divvy {

std::string FormatNode(const NodeRow& row);
/// Nothing when it is no row. Words that are not known are left out.
std::optional<NodeRow> ParseNode(std::string_view name, std::string_view text);

}  // namespace divvy
