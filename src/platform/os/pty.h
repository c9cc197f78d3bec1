// A job's terminal. The supervisor keeps the master side and gives the job the slave side. It relays data between the
// terminal and any number of attached clients, writes the output to the job's log, and keeps the latest output in
// memory.
//
// A client never blocks the job: output that a slow client has not read is buffered up to a limit, beyond which the
// client is detached. One loop uses all descriptors: call Watch() before poll, OnPolled() after it.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/unique_fd.h"

namespace divvy {

struct WindowSize {
  int rows = 0;  // 0: unchanged.
  int columns = 0;
};

class Pty {
 public:
  static constexpr char kEndOfFile = 0x04;  // Ctrl-D, which a new terminal treats as the end of its input.

  /// Opens a pseudo-terminal. Its slave side belongs to the user `owner` (-1: the user of this process). `log` gets all
  /// output; a closed descriptor means no log.
  static Result<Pty> Open(uid_t owner, WindowSize window, Descriptor log);

  const std::string& slave_path() const { return slave_path_; }
  void Resize(WindowSize window);

  /// Connects a client to the terminal. The client first gets the last 64 KiB of output. Ctrl-P Ctrl-Q in `in` detaches
  /// it; so do the end of `in` and an error on `out`. The loss of a client does not end the program's input. A client
  /// whose input ends but which stays must send the end-of-file character (kEndOfFile). If it then ends `in`, it stays,
  /// and the character is typed again after each change of the terminal's mode, because a program such as bash loses
  /// what was typed before it.
  void Attach(std::uint64_t attachment, ForeignDescriptor in, ForeignDescriptor out);

  void Watch(std::vector<pollfd>& polled) const;
  /// Transfers data as the results of poll allow. `polled`: the entries that Watch() added, with these results.
  void OnPolled(const std::vector<pollfd>& polled);
  /// Returns the clients that left since the last call. Client 0, on whose terminal the job was started, is included
  /// only if the user typed the detach keys, not if its terminal disappeared.
  std::vector<std::uint64_t> TakeDetached() { return std::exchange(detached_, {}); }

  /// Call it after the job's last process has ended. Relays the output still in the terminal, gives clients up to a
  /// second to read it, and closes everything.
  void Finish();

 private:
  struct Client {
    std::uint64_t attachment = 0;
    ForeignDescriptor in;
    ForeignDescriptor out;
    std::string unread;       // Output not yet written to `out`.
    bool saw_prefix = false;  // The last byte typed was Ctrl-P.
    bool typed_end = false;   // The last byte typed was kEndOfFile.
    bool is_silent = false;   // `in` ended after it.
    bool is_gone = false;
    bool has_left = false;  // The client is gone because the user typed the detach keys.
  };

  bool ReadOutput();
  void ReadInput(Client& client);
  void WriteInput();
  bool IsCanonical() const;
  void TypeEndAgain();
  void DropGone();
  static void WriteTo(Client& client);

  Descriptor master_;
  Descriptor log_;
  std::string slave_path_;
  std::vector<Client> clients_;
  std::string recent_;  // Latest output; between one and two times kRecent long.
  std::string input_;   // Typed input that the terminal has not taken yet.
  std::vector<std::uint64_t> detached_;
  bool was_canonical_ = true;  // The mode when kEndOfFile was last typed: the terminal collected lines.
  bool is_over_ = false;       // No process has the slave side open any more.
};

}  // namespace divvy
