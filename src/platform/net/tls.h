// TLS 1.3 over a connected socket, by OpenSSL. Each end has its own key and self-signed certificate, and recognises the
// other end by the fingerprint of its certificate. There are no certificate authorities: an administrator copies one
// line with the fingerprint from one machine to the other (wire/http/token_line.h), so no directory service is needed.
//
// No threads and no callbacks: a channel reads and writes only when it is called, and reports which socket event it
// waits for.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

/// A private key and its self-signed certificate, as one PEM text.
struct TlsIdentity {
  std::string pem;
  std::string fingerprint;  // SHA-256 of the certificate, as 64 hexadecimal digits.
};

/// Creates a key on the curve P-256 and a certificate, valid from one hour before `now` for ten years. `name` is stored
/// in the certificate for information only. `dns_names` become its subject alternative names, for other programs that
/// check the name of the server. Our own clients check only the fingerprint.
Result<TlsIdentity> MakeTlsIdentity(const std::string& name, Time now, const std::vector<std::string>& dns_names = {});
/// Loads the identity from the file `path`, or creates it there with access for its owner only. Fails with kCorruptData
/// if the file does not hold a key with its certificate, and with kPermissionDenied if other users may read it.
Result<TlsIdentity> LoadTlsIdentity(const std::string& path, const std::string& name, Time now,
                                    const std::vector<std::string>& dns_names = {});

/// Returns the SHA-256 as 64 hexadecimal digits.
std::string Sha256Hex(std::string_view text);
/// Returns `bytes` random bytes from the operating system's generator, in hexadecimal digits.
Result<std::string> RandomHex(std::size_t bytes);
/// Compares in constant time for texts of the same length.
bool IsSameSecret(std::string_view a, std::string_view b);

/// One connection. The caller keeps owning its socket: it polls it, and closes it after the channel is destroyed.
class TlsChannel {
 public:
  enum class Io {
    kDone,
    kNeedsRead,   // Call again when the socket is readable.
    kNeedsWrite,  // Call again when the socket is writable.
    kEnded,       // The other end closed the TLS connection properly.
    kFailed,      // error() says why; no more data is read or written.
  };
  struct Outcome {
    Io io = Io::kFailed;
    std::size_t bytes = 0;  // With kDone at least 1.
  };

  TlsChannel(TlsChannel&&) noexcept;
  TlsChannel& operator=(TlsChannel&&) noexcept;
  ~TlsChannel();

  // Both do the handshake first. They block if the socket is blocking.
  Outcome Read(std::span<char> room);
  /// Sends bytes over the connection. If a call returns kNeedsRead or kNeedsWrite, the next call must pass the same
  /// bytes again, optionally followed by more.
  Outcome Write(std::string_view bytes);
  /// True if bytes were received that Read has not returned yet. Polling the socket may not report these bytes.
  bool has_unread() const;
  bool is_established() const;
  /// The fingerprint of the other end's certificate. Empty before the handshake, or if it presented none.
  std::string peer_fingerprint() const;
  const std::string& error() const { return error_; }
  /// True if the other end's certificate is not the expected one.
  bool is_stranger() const { return is_stranger_; }
  /// Sends the TLS close message, and does not wait for the other end's.
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

/// The settings that the connections of one end share.
class TlsContext {
 public:
  /// Makes the context of the end that accepts connections. Requests a certificate from the other end. Accepts a peer
  /// without a certificate, and any certificate if the peer proves that it has the key.
  static Result<TlsContext> Server(const TlsIdentity& identity);
  /// Makes the context of the end that connects. Continues only if the server proves to own the certificate with this
  /// fingerprint. Presents `identity` to the server; it may be empty.
  static Result<TlsContext> Client(const std::string& fingerprint, const TlsIdentity& identity = {});
  /// Makes the context of either end of a connection between peers that share a key of 32 bytes, given as hexadecimal
  /// digits (external pre-shared key of TLS 1.3, with a new elliptic-curve exchange each time). Rejects peers without
  /// the key. Uses no certificates.
  static Result<TlsContext> OfKey(const std::string& key, bool is_server);
  /// Initialises what OfKey() and its connections need, so that forks of this process inherit it: this costs
  /// milliseconds, which each fork would pay again. It also creates the first context of either end. Requires: one
  /// thread.
  static void PrepareForKeys();
  TlsContext(TlsContext&&) noexcept;
  TlsContext& operator=(TlsContext&&) noexcept;
  ~TlsContext();

  /// Starts a connection over a connected stream socket.
  Result<TlsChannel> Begin(int fd) const;

 private:
  struct Shared;
  explicit TlsContext(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace divvy
