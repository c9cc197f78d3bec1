// Decides which driver messages mean that a GPU must not be allocated any more.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

/// Returns the meaning of an XID that fences the GPU: the GPU stays unusable until it is reset or the machine is
/// rebooted. Returns "" for every other XID: faults of the application (13, 31, 43, 45), errors that the driver has
/// contained or repaired (63, 92, 94), and unknown numbers. Source: the immediate actions in NVIDIA's XID catalog
/// (RESET_GPU, RESTART_BM and the workflows that end there).
std::string_view FencingXid(unsigned long long xid);

/// Returns a text such as "XID 79 (fallen off the bus)".
std::string XidText(unsigned long long xid);

/// True if only a reboot of the machine restores the GPU.
bool NeedsReboot(unsigned long long xid);

}  // namespace divvy
