// A job's terminal: the supervisor keeps the master side, gives the job the slave side, and relays bytes between it and
// any number of attached clients, the job's log and a memory of what was printed last.
//
// A client never holds up the job: what a slow one has not read is kept for it up to a bound, beyond which it is
// detached. All descriptors are used from one loop: Watch() before poll, OnPolled() after it.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/launch_descriptor.h"
#include "platform/supervisor/supervisor_control.h"

namespace divvy {

class Pty {
 public:
  static constexpr char kEndOfFile = 0x04;  ///< Ctrl-D, what a new terminal takes for the end of its input.

  /// The slave side belongs to `owner` (-1: to us). `log` gets all output; -1: none.
  static Result<Pty> Open(uid_t owner, WindowSize window, Descriptor log);

  const std::string& slave_path() const { return slave_path_; }
  void Resize(WindowSize window);

  /// Starts with the last 64 KiB of output. Ctrl-P Ctrl-Q in `in` detaches, and so do the end of `in` and an error on
  /// `out`: a client that is lost has left and ends nobody's input. One whose input ends, and which stays, types the
  /// end-of-file character (kEndOfFile).
  void Attach(std::uint64_t attachment, ForeignDescriptor in, ForeignDescriptor out);

  void Watch(std::vector<pollfd>& polled) const;
  /// `polled` as Watch() filled it, with the answers.
  void OnPolled(const std::vector<pollfd>& polled);
  /// Clients that have left since the last call. 0, whose terminal the job was started on, only when it typed so: one
  /// whose terminal went away has not left.
  std::vector<std::uint64_t> TakeDetached() { return std::exchange(detached_, {}); }

  /// After the job's last process: passes on what is still in the terminal, gives clients up to a second to read it,
  /// and closes all.
  void Finish();

 private:
  struct Client {
    std::uint64_t attachment = 0;
    ForeignDescriptor in;
    ForeignDescriptor out;
    std::string unread;       // Output that `out` has not taken yet.
    bool saw_prefix = false;  // The last byte typed was Ctrl-P.
    bool is_gone = false;
    bool has_left = false;  // It is gone because it typed so.
  };

  bool ReadOutput();
  void ReadInput(Client& client);
  void WriteInput();
  void DropGone();
  static void WriteTo(Client& client);

  Descriptor master_;
  Descriptor log_;
  std::string slave_path_;
  std::vector<Client> clients_;
  std::string recent_;  // Output, newest last; between one and two times kRecent long.
  std::string input_;   // Typed, and not yet taken by the terminal.
  std::vector<std::uint64_t> detached_;
  bool is_over_ = false;  // No process has the slave side open any more.
};

}  // namespace divvy
