// TLS 1.3 over a connected socket, by OpenSSL: a key and certificate of one's own, and connections that know the other
// end by the fingerprint of its certificate. There are no authorities: who may connect, and to whom, was said once in a
// line that somebody copied from one machine to the other (wire/http/token_line.h), and nobody has to run a directory
// for it.
//
// No thread, no callback: a channel reads and writes when it is told to and says what it waits for, like its socket.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

/// A private key and the certificate that it signed itself, as one PEM text.
struct TlsIdentity {
  std::string pem;
  std::string fingerprint;  // SHA-256 of the certificate, as 64 hexadecimal digits.
};

/// A fresh one on the curve P-256, valid from an hour before `now` for ten years. `name` is told in the certificate
/// and means nothing to us.
Result<TlsIdentity> MakeTlsIdentity(const std::string& name, Time now);
/// From the file `path`; made, and kept there for its owner alone, where there is none. Fails with kCorruptData when it
/// is no key with its certificate, and with kPermissionDenied when others may read it.
Result<TlsIdentity> LoadTlsIdentity(const std::string& path, const std::string& name, Time now);

/// SHA-256 as 64 hexadecimal digits.
std::string Sha256Hex(std::string_view text);
/// As many bytes of chance as `bytes`, in hexadecimal digits; from the operating system's generator.
Result<std::string> RandomHex(std::size_t bytes);
/// Takes as long for any two texts of the same length.
bool IsSameSecret(std::string_view a, std::string_view b);

/// One connection. Its socket stays the caller's: to wait for, and to close after the channel is gone.
class TlsChannel {
 public:
  enum class Io {
    kDone,
    kNeedsRead,   // Again when the socket can be read from,
    kNeedsWrite,  // or written to.
    kEnded,       // The other end said goodbye, in TLS's own words.
    kFailed,      // error() says why; nothing more is read or written.
  };
  struct Outcome {
    Io io = Io::kFailed;
    std::size_t bytes = 0;  // kDone: at least 1.
  };

  TlsChannel(TlsChannel&&) noexcept;
  TlsChannel& operator=(TlsChannel&&) noexcept;
  ~TlsChannel();

  // Both make the handshake first. On a socket that blocks they block.
  Outcome Read(std::span<char> room);
  /// After kNeedsRead or kNeedsWrite the same bytes are to be offered again, perhaps with more behind them.
  Outcome Write(std::string_view bytes);
  /// Bytes have come from the socket that Read has not given yet: the socket may not become readable for them.
  bool has_unread() const;
  bool is_established() const;
  /// The fingerprint of the other end's certificate; empty where it showed none, or before the handshake.
  std::string peer_fingerprint() const;
  const std::string& error() const { return error_; }
  /// The other end's certificate is not the one that was expected.
  bool is_stranger() const { return is_stranger_; }
  /// Says goodbye, without waiting for the other end's.
  void Close();

 private:
  friend class TlsContext;
  struct Session;
  explicit TlsChannel(std::unique_ptr<Session> session);
  Outcome OutcomeOf(int result);
  std::unique_ptr<Session> session_;
  std::string error_;
  bool is_stranger_ = false;
};

/// What connections of one end have in common.
class TlsContext {
 public:
  /// The listening end. Asks the other end for a certificate and takes any that its owner can prove to own, or none.
  static Result<TlsContext> Server(const TlsIdentity& identity);
  /// The dialling end: goes on only with whoever owns the certificate of that fingerprint. `identity` is shown to it;
  /// may be empty.
  static Result<TlsContext> Client(const std::string& fingerprint, const TlsIdentity& identity = {});
  /// Either end of those who know the same key, 32 bytes as hexadecimal digits (external pre-shared key of TLS 1.3,
  /// with a fresh exchange by elliptic curves each time): goes on with nobody else. No certificates.
  static Result<TlsContext> OfKey(const std::string& key, bool is_server);
  /// Sets up what OfKey() and its connections need, for the forks of this process: that costs milliseconds, and each
  /// would pay it anew. The first context of either end is then there as well. Requires: one thread.
  static void PrepareForKeys();
  TlsContext(TlsContext&&) noexcept;
  TlsContext& operator=(TlsContext&&) noexcept;
  ~TlsContext();

  /// Over a connected stream socket.
  Result<TlsChannel> Begin(int fd) const;

 private:
  struct Shared;
  explicit TlsContext(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace divvy
