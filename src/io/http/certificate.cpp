#include "io/http/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard::http {
namespace {

using Names = OpensslPtr<GENERAL_NAMES, &::GENERAL_NAMES_free>;

constexpr std::string_view kPinForm = "sha256//";
constexpr std::size_t kPinDigits = 44;  // base64 of 32 bytes
constexpr std::size_t kHashBytes = 32;

using Hash = std::array<unsigned char, kHashBytes>;

WallTime wall_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (::ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return WallTime(std::chrono::seconds(::timegm(&parts)));
}

std::string text_of(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(::ASN1_STRING_get0_data(string)),
          static_cast<std::size_t>(::ASN1_STRING_length(string))};
}

std::string address_of(const std::string& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  const bool fits = family == AF_INET || bytes.size() == sizeof(in6_addr);
  const bool is_one =
      fits && ::inet_ntop(family, bytes.data(), text.data(), text.size()) != nullptr;
  return is_one ? text.data() : "";
}

std::string alternative_name(const GENERAL_NAME* name) {
  int kind = 0;
  const void* value = ::GENERAL_NAME_get0_value(name, &kind);
  if (kind != GEN_DNS && kind != GEN_URI && kind != GEN_IPADD) return "";
  const std::string text = text_of(static_cast<const ASN1_STRING*>(value));
  if (kind == GEN_IPADD) return "IP:" + address_of(text);
  // A NUL or a control character inside could make one name look like another.
  const bool printable =
      std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!printable || text.empty()) return "";
  return (kind == GEN_DNS ? "DNS:" : "URI:") + text;
}

std::vector<std::string> names_of(const X509* certificate) {
  const Names names(static_cast<GENERAL_NAMES*>(
      ::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> found;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    std::string name = alternative_name(sk_GENERAL_NAME_value(names.get(), i));
    if (!name.empty()) found.push_back(std::move(name));
  }
  return found;
}

std::string pin_of(const X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = ::i2d_X509_PUBKEY(::X509_get_X509_PUBKEY(certificate), &bytes);
  if (size <= 0) return "";
  Hash hash{};
  ::EVP_Digest(bytes, static_cast<std::size_t>(size), hash.data(), nullptr, ::EVP_sha256(),
               nullptr);
  ::OPENSSL_free(bytes);
  std::array<unsigned char, kPinDigits + 1> text{};
  ::EVP_EncodeBlock(text.data(), hash.data(), static_cast<int>(hash.size()));
  return std::string(kPinForm) + reinterpret_cast<const char*>(text.data());
}

std::string fingerprint_of(const X509* certificate) {
  Hash hash{};
  ::X509_digest(certificate, ::EVP_sha256(), hash.data(), nullptr);
  std::string text;
  for (const unsigned char byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

using Bio = OpensslPtr<BIO, &::BIO_free>;
using Key = OpensslPtr<EVP_PKEY, &::EVP_PKEY_free>;
using Certificate = OpensslPtr<X509, &::X509_free>;
using Extension = OpensslPtr<X509_EXTENSION, &::X509_EXTENSION_free>;

constexpr std::size_t kMaxHostNameBytes = 253;   // of a host, by DNS
constexpr std::size_t kMaxCommonNameBytes = 64;  // by X.520
constexpr std::chrono::hours kMaxClockSkew{1};   // of a client, that it is behind ours
constexpr int kSerialBits = 127;                 // random; positive in 16 bytes

Error creation_error(std::string_view what) {
  return Error{Errc::internal,
               fmt::format("cannot create a certificate: {}: {}", what, openssl_reason())};
}

bool is_host_name(const std::string& name) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '*';
  };
  return !name.empty() && name.size() <= kMaxHostNameBytes && std::ranges::all_of(name, allowed);
}

// Built by hand: OpenSSL's way from a text would let a comma in a name begin another.
Result<Names> alternative_names(const std::vector<std::string>& names) {
  Names all(sk_GENERAL_NAME_new_null());
  for (const std::string& name : names) {
    GENERAL_NAME* one = ::GENERAL_NAME_new();
    sk_GENERAL_NAME_push(all.get(), one);
    if (ASN1_OCTET_STRING* address = ::a2i_IPADDRESS(name.c_str()); address != nullptr) {
      ::GENERAL_NAME_set0_value(one, GEN_IPADD, address);
    } else if (is_host_name(name)) {
      ASN1_IA5STRING* text = ::ASN1_IA5STRING_new();
      ::ASN1_STRING_set(text, name.data(), static_cast<int>(name.size()));
      ::GENERAL_NAME_set0_value(one, GEN_DNS, text);
    } else {
      return Error{Errc::invalid,
                   fmt::format("expected a host name or an address; got \"{}\"", printable(name))};
    }
  }
  if (!names.empty()) return all;
  return Error{Errc::invalid, "a certificate needs a host name"};
}

Result<Key> key_for(std::string_view pem) {
  if (pem.empty()) {
    Key made(EVP_EC_gen("P-256"));
    if (!made) return creation_error("a key");
    return made;
  }
  const Bio bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Key key(::PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse_passphrase, nullptr));
  if (key) return key;
  return Error{Errc::invalid, "the key is not a PEM private key: " + openssl_reason()};
}

bool add_extension(X509* certificate, int nid, const char* value) {
  const Extension one(::X509V3_EXT_conf_nid(nullptr, nullptr, nid, value));
  return one && ::X509_add_ext(certificate, one.get(), -1) == 1;
}

bool set_serial(X509* certificate) {
  const OpensslPtr<BIGNUM, &::BN_free> number(::BN_new());
  return ::BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         ::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(certificate)) != nullptr;
}

bool set_subject(X509* certificate, const std::string& first_name) {
  const std::string text = first_name.size() <= kMaxCommonNameBytes ? first_name : "gpuyard";
  X509_NAME* subject = ::X509_get_subject_name(certificate);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.c_str());
  return ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, bytes, -1, -1, 0) == 1 &&
         ::X509_set_issuer_name(certificate, subject) == 1;
}

bool set_dates(X509* certificate, WallTime now, std::chrono::days validity) {
  const auto begins = std::chrono::floor<std::chrono::seconds>(now - kMaxClockSkew);
  const std::time_t from = begins.time_since_epoch().count();
  const std::time_t until = (begins + validity).time_since_epoch().count();
  return ::ASN1_TIME_set(X509_getm_notBefore(certificate), from) != nullptr &&
         ::ASN1_TIME_set(X509_getm_notAfter(certificate), until) != nullptr;
}

// Makes it valid for a server only: trusting it does not mean trusting certificates signed by it.
bool describe(X509* certificate, GENERAL_NAMES* names) {
  return add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
         add_extension(certificate, NID_ext_key_usage, "serverAuth") &&
         ::X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1;
}

Result<std::string> key_to_pem(EVP_PKEY* key) {
  const Bio bio(::BIO_new(::BIO_s_secmem()));
  if (::PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return creation_error("writing the key as PEM");
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

std::string certificate_to_pem(X509* certificate) {
  const Bio bio(::BIO_new(::BIO_s_mem()));
  ::PEM_write_bio_X509(bio.get(), certificate);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

CertificateFacts facts_of(const X509* certificate) {
  CertificateFacts facts;
  facts.not_before = wall_of(::X509_get0_notBefore(certificate));
  facts.not_after = wall_of(::X509_get0_notAfter(certificate));
  facts.names = names_of(certificate);
  facts.pin = pin_of(certificate);
  facts.fingerprint = fingerprint_of(certificate);
  return facts;
}

Result<std::string> to_fingerprint(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ':') digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const bool right = digits.size() == 2 * kHashBytes &&
                     digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (right) return digits;
  return Error{
      Errc::invalid,
      fmt::format("'{}' is not a SHA-256 certificate fingerprint of 64 hexadecimal digits", text)};
}

bool is_pin(std::string_view text) {
  return text.starts_with(kPinForm) && text.size() == kPinForm.size() + kPinDigits &&
         text.ends_with('=');
}

bool start_openssl() {
  return ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
}

std::string openssl_reason() {
  const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  return reason != nullptr ? reason : "unknown reason";
}

Result<SelfSignedCertificate> make_self_signed(const std::vector<std::string>& names, WallTime now,
                                               std::chrono::days validity,
                                               std::string_view key_pem) {
  if (!start_openssl()) return creation_error("OpenSSL cannot be initialised");
  ::ERR_clear_error();
  auto alternatives = alternative_names(names);
  if (!alternatives) return std::move(alternatives).error();
  auto key = key_for(key_pem);
  if (!key) return std::move(key).error();
  const Certificate certificate(::X509_new());
  X509* x = certificate.get();
  const bool written = ::X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
                       set_subject(x, names.front()) && set_dates(x, now, validity) &&
                       ::X509_set_pubkey(x, key->get()) == 1 && describe(x, alternatives->get());
  if (!written) return creation_error("setting its fields");
  if (::X509_sign(x, key->get(), ::EVP_sha256()) <= 0) return creation_error("signing it");
  auto text = key_to_pem(key->get());
  if (!text) return std::move(text).error();
  return SelfSignedCertificate{certificate_to_pem(x), *std::move(text)};
}

int refuse_passphrase(char*, int, int, void*) {
  return -1;
}

Result<CertificateFacts> parse_facts(std::string_view pem) {
  start_openssl();
  const Bio bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Certificate found(::PEM_read_bio_X509(bio.get(), nullptr, refuse_passphrase, nullptr));
  if (!found) return Error{Errc::invalid, "it contains no certificate in PEM format"};
  return facts_of(found.get());
}

}  // namespace gpuyard::http
