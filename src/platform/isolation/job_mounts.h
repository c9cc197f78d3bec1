// A job's own view of the file system: device files that it cannot open, and /tmp and /dev/shm of its own. For devices
// this is the way where there is no cgroup that closes them: of a root daemon in a mount namespace alone, else in one
// inside a user namespace, where nobody but the user exists, so that set-uid programs do not work.
//
// A closed device stays where it was and opens for nobody (EACCES): its file is mounted over itself without the right
// to open devices. That goes by path: another file of the same device number opens, which only root can make. What is
// refused is not counted. Root in the job can take the mounts away; others cannot, nor in a user namespace of their
// own, to which inherited mounts are locked.
//
// Guarantees that nothing of it is seen outside the job, and that it is gone with its last process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/os/launch_descriptor.h"

namespace divvy {

struct MountWishes {
  std::vector<std::string> closed_devices;  // Device files; those that are not there are left out.
  std::string own_tmp;                      // An empty folder that stands in for /tmp; empty: none.
  bool has_own_shm = false;                 // An empty file system in memory stands in for /dev/shm.
  std::string kept;  // A folder that is seen as it is, also where it lies under /tmp; empty: none.

  bool IsEmpty() const { return closed_devices.empty() && own_tmp.empty() && !has_own_shm; }
};

/// All that EnterMounts() needs, laid out beforehand: it may not allocate.
struct MountPlan {
  struct Step {
    std::string source;  // Empty: an empty file system in memory.
    std::string target;
    bool closes_device = false;  // `target` is a device file, which is mounted on itself so that it opens no device.
  };
  std::vector<Step> steps;  // Empty: the job sees what all see.
  bool needs_user_namespace = false;
  std::string user_map;
  std::string group_map;
};

/// Makes in wishes.own_tmp what the mounts need there. kInternal names the folder.
Result<MountPlan> PlanMounts(const MountWishes& wishes);

/// In the new process, while it has the rights of the supervisor still. -1 with errno where it did not work.
int EnterMounts(const MountPlan& plan);

/// The namespaces that EnterMounts() made, held open. They are entered through these descriptors alone: a process of
/// the job may have moved to namespaces of its user's making, in which the user chose what /etc is.
struct JobNamespaces {
  Descriptor mounts;  // Closed: the job sees what all see.
  Descriptor user;    // Closed: the job has no user namespace of its own.
};
/// In the process that has called EnterMounts(), before it executes anything: sends the namespaces over `socket`.
/// Allocates nothing. -1 with errno where it did not work.
int SendNamespaces(const MountPlan& plan, int socket);
/// At the other end of the socket, once that process has sent them or ended. All closed: it sent none.
JobNamespaces ReceiveNamespaces(int socket);
/// In a process of one thread. -1 with errno where it did not work.
int JoinNamespaces(const JobNamespaces& namespaces);

/// Whether a new process of ours can close a device so; else the system's reason.
Status CanMount();

/// A folder for MountWishes::own_tmp under /tmp, that its owner alone may enter but through the mount.
Result<std::string> MakeOwnTmp(uid_t owner, gid_t group);
/// Closes it to its owner, and marks it for RemoveOldTmps() by its name. Does nothing where that was done already, or
/// with a path that MakeOwnTmp() did not make. Cost: some system calls, however much is in it.
void SetAsideOwnTmp(const std::string& folder);
/// Removes all that was set aside on this machine by our user, also what a process that was killed has left. Cost: time
/// for each file in them.
void RemoveOldTmps();

}  // namespace divvy
