#include "platform/net/tls.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "platform/net/openssl_objects.h"
#include "platform/os/unique_fd.h"
#include "platform/users/secret_file.h"

namespace divvy {
namespace {

constexpr long kSecondsOfYear = 365L * 24 * 3600;
constexpr long kYears = 10;
constexpr long kClockSlack = 3600;
constexpr std::size_t kMostPem = 64u << 10;

std::string Hex(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

// Returns OpenSSL's reason for the last failure and empties its error queue.
std::string Complaint() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    if (reason != nullptr && text.empty()) text = reason;
  }
  return text.empty() ? "no reason given" : text;
}

Error TlsError(const std::string& doing) { return Internal(doing + ": " + Complaint()); }

std::string FingerprintOf(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (certificate == nullptr || X509_digest(certificate, EVP_sha256(), digest.data(), &size) != 1) return "";
  return Hex({digest.data(), size});
}

std::string TextOf(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

OwnedKey KeyOf(const std::string& pem) {
  const OwnedBio bio = BioOf(pem);
  return OwnedKey(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr) : nullptr);
}

OwnedCertificate CertificateOf(const std::string& pem) {
  const OwnedBio bio = BioOf(pem);
  return OwnedCertificate(bio ? PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr) : nullptr);
}

bool Name(X509* certificate, const std::string& name) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const std::string shown = name.substr(0, 64);  // The standard limits a name to 64 characters.
  return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(shown.data()),
                                    static_cast<int>(shown.size()), -1, 0) == 1 &&
         X509_set_issuer_name(certificate, subject) == 1;
}

bool AddDnsName(GENERAL_NAMES* names, const std::string& text) {
  Owned<GENERAL_NAME, GENERAL_NAME_free> name(GENERAL_NAME_new());
  ASN1_IA5STRING* const value = ASN1_IA5STRING_new();
  if (!name || value == nullptr) return false;
  GENERAL_NAME_set0_value(name.get(), GEN_DNS, value);  // `name` owns `value` from here on.
  if (ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) != 1) return false;
  if (sk_GENERAL_NAME_push(names, name.get()) <= 0) return false;
  name.release();  // `names` owns it.
  return true;
}

bool AddDnsNames(X509* certificate, const std::vector<std::string>& dns_names) {
  if (dns_names.empty()) return true;
  const Owned<GENERAL_NAMES, GENERAL_NAMES_free> names(GENERAL_NAMES_new());
  return names &&
         std::ranges::all_of(dns_names, [&](const std::string& one) { return AddDnsName(names.get(), one); }) &&
         X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

bool Number(X509* certificate) {
  std::uint64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) return false;
  return ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1) == 1;
}

// A socket method for OpenSSL: OpenSSL's own would let SIGPIPE end the process when the peer is gone.
int SocketOf(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int PutInto(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t sent = 0;
  do {
    sent = ::send(SocketOf(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int TakeFrom(BIO* bio, char* room, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t got = 0;
  do {
    got = ::recv(SocketOf(bio), room, static_cast<std::size_t>(size), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "divvy socket");
    if (made == nullptr || BIO_meth_set_write(made, PutInto) != 1 || BIO_meth_set_read(made, TakeFrom) != 1 ||
        BIO_meth_set_ctrl(made, Control) != 1) {
      return static_cast<BIO_METHOD*>(nullptr);
    }
    return made;
  }();
  return method;
}

// Accepts any certificate at this point; its fingerprint is checked after the handshake.
int TakeAny(int, X509_STORE_CTX*) { return 1; }

Status Use(SSL_CTX* context, const TlsIdentity& identity) {
  const OwnedKey key = KeyOf(identity.pem);
  const OwnedCertificate certificate = CertificateOf(identity.pem);
  if (!key || !certificate || SSL_CTX_use_certificate(context, certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return CorruptData("the key and the certificate for TLS do not belong together: " + Complaint());
  }
  return {};
}

Result<OwnedContext> MakeContext(const SSL_METHOD* method) {
  OwnedContext context(SSL_CTX_new(method));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) {
    return TlsError("setting TLS up");
  }
  // Lets a write that was only partly done be repeated from another buffer, and lets idle connections keep no buffers.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  return context;
}

/// A context that PrepareForKeys() made and that is not used yet.
OwnedContext& Prepared(bool is_server) {
  static std::array<OwnedContext, 2> prepared;
  return prepared[is_server ? 1 : 0];
}

// Shared keys. The context holds the key as a session that both ends treat as one to resume.
constexpr unsigned char kKeyName[] = "divvy";

void FreeSession(void*, void* session, CRYPTO_EX_DATA*, int, long, void*) {
  SSL_SESSION_free(static_cast<SSL_SESSION*>(session));
}
int KeySlot() {
  static const int slot = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeSession);
  return slot;
}
SSL_SESSION* SharedKey(const SSL* ssl) {
  auto* session = static_cast<SSL_SESSION*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), KeySlot()));
  return session != nullptr && SSL_SESSION_up_ref(session) == 1 ? session : nullptr;
}
int FindKey(SSL* ssl, const unsigned char* name, std::size_t size, SSL_SESSION** session) {
  *session = std::string_view(reinterpret_cast<const char*>(name), size) == "divvy" ? SharedKey(ssl) : nullptr;
  return 1;
}
int UseKey(SSL* ssl, const EVP_MD* digest, const unsigned char** name, std::size_t* size, SSL_SESSION** session) {
  const bool fits = digest == nullptr || EVP_MD_is_a(digest, "SHA256") == 1;
  *session = fits ? SharedKey(ssl) : nullptr;
  *name = kKeyName;
  *size = sizeof kKeyName - 1;
  return 1;
}

}  // namespace

Result<TlsIdentity> MakeTlsIdentity(const std::string& name, Time now, const std::vector<std::string>& dns_names) {
  const OwnedKey key(EVP_EC_gen("P-256"));
  const OwnedCertificate certificate(X509_new());
  if (!key || !certificate) return TlsError("making a key for TLS");
  const auto seconds = static_cast<time_t>(ToSeconds(now.time_since_epoch()));
  const auto valid_at = [&](ASN1_TIME* time, long offset) { return ASN1_TIME_set(time, seconds + offset) != nullptr; };
  const bool is_made = X509_set_version(certificate.get(), X509_VERSION_3) == 1 && Number(certificate.get()) &&
                       valid_at(X509_getm_notBefore(certificate.get()), -kClockSlack) &&
                       valid_at(X509_getm_notAfter(certificate.get()), kYears * kSecondsOfYear) &&
                       Name(certificate.get(), name) && AddDnsNames(certificate.get(), dns_names) &&
                       X509_set_pubkey(certificate.get(), key.get()) == 1 &&
                       X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0;
  const OwnedBio text(BIO_new(BIO_s_mem()));
  if (!is_made || !text ||
      PEM_write_bio_PrivateKey(text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      PEM_write_bio_X509(text.get(), certificate.get()) != 1) {
    return TlsError("making a certificate for TLS");
  }
  return TlsIdentity{TextOf(text.get()), FingerprintOf(certificate.get())};
}

Result<TlsIdentity> LoadTlsIdentity(const std::string& path, const std::string& name, Time now,
                                    const std::vector<std::string>& dns_names) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    DIVVY_TRY(TlsIdentity made, MakeTlsIdentity(name, now, dns_names));
    DIVVY_CHECK(WriteSecret(path, made.pem, true));
    return made;
  }
  TlsIdentity identity;
  DIVVY_TRY(identity.pem, ReadSecret(path, kMostPem));
  const OwnedKey key = KeyOf(identity.pem);
  const OwnedCertificate certificate = CertificateOf(identity.pem);
  if (!key || !certificate || X509_check_private_key(certificate.get(), key.get()) != 1) {
    return CorruptData(path + " does not hold a key with its certificate (" + Complaint() +
                       "); remove it to create a new one, which invalidates all tokens");
  }
  identity.fingerprint = FingerprintOf(certificate.get());
  return identity;
}

std::string Sha256Hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const int is_made = EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  DIVVY_ASSERT(is_made == 1);
  return Hex({digest.data(), size});
}

Result<std::string> RandomHex(std::size_t bytes) {
  std::string random(bytes, '\0');
  auto* data = reinterpret_cast<unsigned char*>(random.data());
  if (bytes > INT_MAX || RAND_bytes(data, static_cast<int>(bytes)) != 1) return TlsError("drawing random bytes");
  return Hex({data, bytes});
}

bool IsSameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// --- A connection ---------------------------------------------------------------------------------------------------

struct TlsChannel::Session {
  OwnedSsl ssl;
  std::string expected;  // Expected fingerprint; empty: any.
  bool needs_key = false;
  bool is_checked = false;
  bool is_over = false;
};

TlsChannel::TlsChannel(std::unique_ptr<Session> session) : session_(std::move(session)) {}
TlsChannel::TlsChannel(TlsChannel&&) noexcept = default;
TlsChannel& TlsChannel::operator=(TlsChannel&&) noexcept = default;
TlsChannel::~TlsChannel() = default;

TlsChannel::Outcome TlsChannel::OutcomeOf(int result) {
  SSL* ssl = session_->ssl.get();
  const int system_error = errno;
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
      return {Io::kNeedsRead, 0};
    case SSL_ERROR_WANT_WRITE:
      return {Io::kNeedsWrite, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {Io::kEnded, 0};
    case SSL_ERROR_SYSCALL:
      error_ = system_error == 0 ? "the connection was cut" : std::strerror(system_error);
      break;
    default:
      error_ = Complaint();
  }
  ERR_clear_error();
  session_->is_over = true;
  return {Io::kFailed, 0};
}

TlsChannel::Outcome TlsChannel::Read(std::span<char> room) {
  if (session_->is_over) return {Io::kFailed, 0};
  SSL* ssl = session_->ssl.get();
  ERR_clear_error();
  errno = 0;
  if (!session_->is_checked) {
    const int greeted = SSL_do_handshake(ssl);
    if (greeted != 1) return OutcomeOf(greeted);
    session_->is_checked = true;
    if (session_->needs_key && SSL_session_reused(ssl) != 1) {
      error_ = "the peer does not know the key";
      session_->is_over = session_->is_checked = is_stranger_ = true;
      return {Io::kFailed, 0};
    }
    if (!session_->expected.empty() && !IsSameSecret(peer_fingerprint(), session_->expected)) {
      error_ =
          "the server's certificate is not the one of the token; if the daemon there was reinstalled, run divvy login "
          "with a new token";
      session_->is_over = is_stranger_ = true;
      return {Io::kFailed, 0};
    }
  }
  if (room.empty()) return {Io::kDone, 0};
  const int got = SSL_read(ssl, room.data(), static_cast<int>(std::min<std::size_t>(room.size(), INT_MAX)));
  if (got > 0) return {Io::kDone, static_cast<std::size_t>(got)};
  return OutcomeOf(got);
}

TlsChannel::Outcome TlsChannel::Write(std::string_view bytes) {
  // No data is sent before the peer is verified.
  if (!session_->is_checked) {
    const Outcome greeted = Read({});
    if (greeted.io != Io::kDone) return greeted;
  }
  if (session_->is_over) return {Io::kFailed, 0};
  if (bytes.empty()) return {Io::kDone, 0};
  ERR_clear_error();
  errno = 0;
  const int put =
      SSL_write(session_->ssl.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX)));
  if (put > 0) return {Io::kDone, static_cast<std::size_t>(put)};
  return OutcomeOf(put);
}

bool TlsChannel::has_unread() const { return !session_->is_over && SSL_has_pending(session_->ssl.get()) == 1; }

bool TlsChannel::is_established() const { return session_->is_checked && !session_->is_over; }

std::string TlsChannel::peer_fingerprint() const {
  return FingerprintOf(SSL_get0_peer_certificate(session_->ssl.get()));
}

void TlsChannel::Close() {
  if (session_->is_over || !session_->is_checked) return;
  session_->is_over = true;
  SSL_shutdown(session_->ssl.get());
  ERR_clear_error();
}

// --- What connections have in common --------------------------------------------------------------------------------

struct TlsContext::Shared {
  OwnedContext context;
  std::string expected;
  bool needs_key = false;
  bool is_server = false;
};

TlsContext::TlsContext(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}
TlsContext::TlsContext(TlsContext&&) noexcept = default;
TlsContext& TlsContext::operator=(TlsContext&&) noexcept = default;
TlsContext::~TlsContext() = default;

Result<TlsContext> TlsContext::Server(const TlsIdentity& identity) {
  auto shared = std::make_unique<Shared>();
  DIVVY_TRY(shared->context, MakeContext(TLS_server_method()));
  DIVVY_CHECK(Use(shared->context.get(), identity));
  SSL_CTX_set_verify(shared->context.get(), SSL_VERIFY_PEER, TakeAny);
  shared->is_server = true;
  return TlsContext(std::move(shared));
}

Result<TlsContext> TlsContext::Client(const std::string& fingerprint, const TlsIdentity& identity) {
  auto shared = std::make_unique<Shared>();
  DIVVY_TRY(shared->context, MakeContext(TLS_client_method()));
  if (!identity.pem.empty()) {
    DIVVY_CHECK(Use(shared->context.get(), identity));
  }
  SSL_CTX_set_verify(shared->context.get(), SSL_VERIFY_PEER, TakeAny);
  shared->expected = fingerprint;
  return TlsContext(std::move(shared));
}

Result<TlsContext> TlsContext::OfKey(const std::string& key, bool is_server) {
  static constexpr unsigned char kSuite[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
  auto shared = std::make_unique<Shared>();
  shared->context = std::move(Prepared(is_server));
  if (!shared->context) {
    DIVVY_TRY(shared->context, MakeContext(is_server ? TLS_server_method() : TLS_client_method()));
  }
  SSL_CTX* context = shared->context.get();
  std::array<unsigned char, 32> bytes{};
  std::size_t size = 0;
  if (OPENSSL_hexstr2buf_ex(bytes.data(), bytes.size(), &size, key.c_str(), '\0') != 1 || size != bytes.size())
    return InvalidArgument("a key between nodes must have 64 hexadecimal digits");
  const Owned<SSL, SSL_free> ssl(SSL_new(context));
  const SSL_CIPHER* suite = ssl ? SSL_CIPHER_find(ssl.get(), kSuite) : nullptr;
  Owned<SSL_SESSION, SSL_SESSION_free> session(SSL_SESSION_new());
  if (suite == nullptr || !session || SSL_SESSION_set1_master_key(session.get(), bytes.data(), size) != 1 ||
      SSL_SESSION_set_cipher(session.get(), suite) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ex_data(context, KeySlot(), session.get()) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1) {
    return TlsError("setting up a key between machines");
  }
  static_cast<void>(session.release());
  OPENSSL_cleanse(bytes.data(), bytes.size());
  // There are no trusted certificates, so a server that authenticates with a certificate is rejected.
  SSL_CTX_set_verify(context, is_server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_psk_find_session_callback(context, FindKey);
  SSL_CTX_set_psk_use_session_callback(context, UseKey);
  shared->needs_key = true;
  shared->is_server = is_server;
  return TlsContext(std::move(shared));
}

void TlsContext::PrepareForKeys() {
  const std::string key(64, '0');
  const auto server = OfKey(key, true), client = OfKey(key, false);
  std::array<int, 2> ends = {-1, -1};
  if (!server || !client || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return;
  const Descriptor server_end(ends[0]), client_end(ends[1]);
  auto hears = server->Begin(ends[0]), dials = client->Begin(ends[1]);
  // Does one handshake between two contexts of this process, because OpenSSL loads much of what a connection needs at
  // the first handshake.
  constexpr int kTurns = 8;
  for (int turn = 0; hears && dials && turn < kTurns && !hears->is_established(); ++turn) {
    dials->Read({});
    hears->Read({});
  }
  for (const bool is_server : {true, false}) {
    auto made = MakeContext(is_server ? TLS_server_method() : TLS_client_method());
    if (made) Prepared(is_server) = *std::move(made);
  }
  ERR_clear_error();
}

Result<TlsChannel> TlsContext::Begin(int fd) const {
  auto session = std::make_unique<TlsChannel::Session>();
  session->ssl.reset(SSL_new(shared_->context.get()));
  BIO* socket = SocketMethod() == nullptr ? nullptr : BIO_new(SocketMethod());
  if (!session->ssl || socket == nullptr) {
    BIO_free(socket);
    return TlsError("beginning a TLS connection");
  }
  BIO_set_data(socket, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(socket, 1);
  SSL_set_bio(session->ssl.get(), socket, socket);
  if (shared_->is_server) SSL_set_accept_state(session->ssl.get());
  else SSL_set_connect_state(session->ssl.get());
  session->expected = shared_->expected;
  session->needs_key = shared_->needs_key;
  return TlsChannel(std::move(session));
}

}  // namespace divvy
