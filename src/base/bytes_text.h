// Sizes of memory as people say them.
#pragma once

#include <string>

#include "base/units.h"

namespace divvy {

/// "80 GiB", "1.5 TiB", "512 MiB", rounded to one digit after the point; from 100 on, none.
std::string BytesText(Bytes bytes);

}  // namespace divvy
