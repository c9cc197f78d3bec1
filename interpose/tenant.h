// This process as a tenant's: the page, its slot in it, its devices, and the bytes that it has. What is taken of the
// page and given back goes through here and nowhere else.
#pragma once

#include <atomic>
#include <cstdint>

#include "platform/gpu/cuda_types.h"
#include "platform/gpu/tenant_page.h"

namespace divvy::interpose {

/// A device that is not the tenant's: neither counted nor gated.
inline constexpr unsigned kNotOurs = ~0U;

/// The page that DIVVY_SHARE leads to, mapped at the first call; null: this process shares nothing. Why it does not,
/// where it should, is said once on standard error.
share::Page* SharedPage();
/// The folder that DIVVY_SHARE named then: a program may change its environment.
const char* ShareFolder();

/// The process is a tenant's from here on: the link is dialled and a slot waited for. Once; cheap when it was done.
/// False: nothing is shared, and the call goes to the driver as it is. Requires: not under a lock of this library.
bool IsShared();

/// Says one line on standard error, with the name of the program that speaks and the process. For what makes sharing
/// impossible, never for what a program did.
void Say(const char* what, const char* repair);
/// Sharing ends for this process, with such a line.
void StopSharing(const char* what, const char* repair);

/// The tenant's number of the driver's device, by UUID when the process starts; kNotOurs.
unsigned DeviceOf(cuda::Device ordinal);
/// Of the context that is current, or kNotOurs. `ordinal`: the driver's number of it.
unsigned CurrentDevice(cuda::Device* ordinal = nullptr);
cuda::Device OrdinalOf(unsigned device);
/// True if CurrentDevice need not ask the driver.
bool HasOneDevice();

/// Takes bytes before the driver is asked for them: kSuccess, or kOutOfMemory when they are above the ceiling and the
/// keeper does not raise it. May wait for the keeper; requires: no lock held, and not inside the gate.
cuda::Return Take(unsigned device, std::uint64_t bytes);
/// The same without asking anybody: for where nobody may wait.
bool TakeAtOnce(unsigned device, std::uint64_t bytes);
/// What the driver has taken already: counted, whatever the ceiling is.
void TakeRegardless(unsigned device, std::uint64_t bytes);
void GiveBack(unsigned device, std::uint64_t bytes);
/// Bytes that this process has, as it counts them.
std::uint64_t Mine(unsigned device);

/// What this tenant's programs are shown of a device: what it may have at most and what all its processes use.
/// `total`: in, as the driver says; out, as shown.
void ShownMemory(unsigned device, std::uint64_t& total, std::uint64_t& used);

/// Why this process cannot be moved (share::Flag).
void SetFlags(std::uint32_t flags);
std::uint32_t FlagsNow();

/// Words of this process in the page, or beside it while it has no slot. Never null.
share::PageProcess* ProcessWords();
std::uint32_t SlotNow();
std::uint64_t GenerationNow();
/// The keeper has given it this slot, in the page with this inode (0: not told); what it uses is entered there if it is
/// another than before. False: that page cannot be mapped.
bool AdoptSlot(std::uint32_t slot, std::uint64_t generation, std::uint64_t inode);

/// Which of the driver's devices are the tenant's. False: the driver is not initialised in this process.
bool FindDevices();
/// In the child of a fork: its parent's slot stays the parent's.
void ForgetTenancy();

}  // namespace divvy::interpose
