// Memory sizes as text for people.
#pragma once

#include <string>

#include "base/units.h"

namespace divvy {

/// "80 GiB", "1.5 TiB", "512 MiB", rounded to one decimal; from 100 on, to a whole number.
std::string BytesText(Bytes bytes);

}  // namespace divvy
