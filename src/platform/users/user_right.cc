#include "platform/users/user_right.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/text.h"
#include "platform/os/unix_socket.h"
#include "platform/users/secret_file.h"
#include "platform/users/user_identity.h"

namespace divvy {
namespace {

constexpr std::size_t kPublicKeyBytes = 32;

/// The signed bytes: the purpose, so that a signature made for another purpose is not accepted, and the uid and gid.
struct Signed {
  std::array<char, 16> purpose = {'d', 'i', 'v', 'v', 'y', ' ', 'r', 'i', 'g', 'h', 't', ' ', '1'};
  std::int64_t uid = -1;
  std::int64_t gid = -1;
};
static_assert(sizeof(Signed) == 32);

std::string_view BytesOf(const Signed& text) { return {reinterpret_cast<const char*>(&text), sizeof text}; }

std::string SignedName(std::string_view name) { return "divvy right by name 1 " + std::string(name); }

const unsigned char* Raw(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using OwnedDigest = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;

OwnedSigningKey PublicKey(const std::string& bytes) {
  return OwnedSigningKey(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Raw(bytes), bytes.size()));
}

bool IsSigned(const OwnedSigningKey& key, std::string_view text, const UserRight& right) {
  const OwnedDigest digest(EVP_MD_CTX_new());
  return key && EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(digest.get(), right.data(), right.size(), Raw(text), text.size()) == 1;
}

template <typename Binary>
std::string HexText(const Binary& bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  OPENSSL_buf2hexstr_ex(text.data(), text.size(), nullptr, reinterpret_cast<const unsigned char*>(bytes.data()),
                        bytes.size(), '\0');
  text.pop_back();
  return text;
}

/// Returns false unless the text is hexadecimal and has exactly the size of `bytes`.
template <typename Binary>
bool ReadHex(const std::string& text, Binary& bytes) {
  std::size_t size = 0;
  return OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), &size, text.c_str(),
                               '\0') == 1 &&
         size == bytes.size();
}

constexpr std::chrono::seconds kNameKept{60};

}  // namespace

void KeyDeleter::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

Result<RightIssuer> RightIssuer::Open(const std::string& path) {
  auto secret = ReadSecret(path, kPublicKeyBytes);
  if (!secret && secret.error().code != ErrorCode::kNotFound) return secret.error();
  OwnedSigningKey key;
  if (secret) {
    key.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                           reinterpret_cast<const unsigned char*>(secret->data()), secret->size()));
    OPENSSL_cleanse(secret->data(), secret->size());
    if (!key) return CorruptData("'" + path + "' is not a signing key; remove it, then each user must run divvy once");
    return RightIssuer(std::move(key));
  }
  key.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  std::string bytes(kPublicKeyBytes, '\0');
  std::size_t size = bytes.size();
  if (!key || EVP_PKEY_get_raw_private_key(key.get(), reinterpret_cast<unsigned char*>(bytes.data()), &size) != 1)
    return Internal("cannot make the launcher's signing key");
  const Status written = WriteSecret(path, bytes, true);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  if (!written) return written.error();
  return RightIssuer(std::move(key));
}

UserRight RightIssuer::Sign(std::string_view text) const {
  UserRight right = {};
  const OwnedDigest digest(EVP_MD_CTX_new());
  std::size_t size = right.size();
  if (!key_ || EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(digest.get(), right.data(), &size, Raw(text), text.size()) != 1)
    right.fill(0);
  return right;
}

UserRight RightIssuer::Issue(std::int64_t uid, std::int64_t gid) const {
  Signed text;
  text.uid = uid;
  text.gid = gid;
  return Sign(BytesOf(text));
}

UserRight RightIssuer::IssueByName(std::string_view name) const { return Sign(SignedName(name)); }

std::string RightIssuer::public_key() const {
  std::string bytes(kPublicKeyBytes, '\0');
  std::size_t size = bytes.size();
  if (!key_ || EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(bytes.data()), &size) != 1)
    return "";
  return bytes;
}

RightChecker::RightChecker(const std::string& public_key, const std::string& controllers_key)
    : key_(PublicKey(public_key)), controllers_key_(PublicKey(controllers_key)) {}

bool RightChecker::IsGood(std::int64_t uid, std::int64_t gid, const UserRight& right) {
  if (good_.contains({uid, gid})) return true;
  Signed text;
  text.uid = uid;
  text.gid = gid;
  const bool is_good = IsSigned(key_, BytesOf(text), right);
  if (is_good) good_.emplace(uid, gid);
  return is_good;
}

bool RightChecker::IsGoodByName(std::int64_t uid, std::int64_t gid, const UserRight& right) {
  if (!controllers_key_) return false;
  const auto now = std::chrono::steady_clock::now();
  const auto known = good_by_name_.find({uid, gid});
  if (known != good_by_name_.end() && known->second.right == right && now < known->second.until) return true;
  const auto account = AccountNameOf(uid);
  if (!account || account->gid != gid || !IsSigned(controllers_key_, SignedName(account->name), right)) return false;
  good_by_name_.insert_or_assign({uid, gid}, GoodByName{right, now + kNameKept});
  return true;
}

std::string KeyText(const std::string& public_key) { return ToLower(HexText(public_key)); }

std::string ReadKey(std::string_view text) {
  std::string key(kPublicKeyBytes, '\0');
  return ReadHex(std::string(Trim(text)), key) ? key : "";
}

std::string RightText(const UserRight& right) { return HexText(right); }

UserRight ReadRight(const std::string& text) {
  UserRight right = {};
  if (!ReadHex(text, right)) return {};
  return right;
}

// A listening socket always has a name. So an end whose peer has a name is the connecting end, where the kernel reports
// the listener's user. An end of a socket pair has no name of its own until a process binds it.
Result<std::pair<std::int64_t, std::int64_t>> CallerOf(int socket) {
  const auto refused = [](const std::string& why) { return PermissionDenied("not a connection of a user: " + why); };
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM)
    return refused("it is not a stream socket");
  sockaddr_un own = {}, peer = {};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 || own.sun_family != AF_UNIX)
    return refused("it is not a Unix socket");
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return refused("it is not connected");
  if (own_size <= sizeof(sa_family_t)) return refused("it was not accepted from a listener");
  if (peer_size > sizeof(sa_family_t)) return refused("its other end is a listening socket");
  const PeerCredentials credentials = CredentialsOf(socket);
  if (credentials.uid < 0 || credentials.gid < 0) return refused("the kernel does not report its owner");
  return std::pair(credentials.uid, credentials.gid);
}

}  // namespace divvy
