// A limit for scripts that strangers send.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace divvy::dialect {

/// Refuses a script whose option lines take too long to read: each takes up to a millisecond, while the rest of a
/// script is only copied. `more`: bytes of options beside the script, which count too.
Status CheckOptionLines(std::string_view script, std::size_t more = 0);

}  // namespace divvy::dialect
