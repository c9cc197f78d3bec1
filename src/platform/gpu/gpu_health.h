// Which of the driver's messages mean that a GPU must not be given out any more.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

/// What an XID says, for one that fences the GPU: it stays unusable until it is reset, or the machine restarted. Empty
/// for every other XID: faults of the application (13, 31, 43, 45), errors that the driver has contained or repaired
/// (63, 92, 94), and numbers that are not known.
/// Source: NVIDIA's XID catalog, its column of immediate actions (RESET_GPU, RESTART_BM and the workflows that end
/// there).
std::string_view FencingXid(unsigned long long xid);

/// "XID 79 (fallen off the bus)".
std::string XidText(unsigned long long xid);

/// True where nothing less than a restart of the machine brings the GPU back.
bool NeedsReboot(unsigned long long xid);

}  // namespace divvy
