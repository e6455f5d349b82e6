#include "io/http/self_signed.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "io/http/openssl.h"

namespace gpuyard::http {
namespace {

using Names = OpensslPtr<GENERAL_NAMES, &::GENERAL_NAMES_free>;
using Bio = OpensslPtr<BIO, &::BIO_free>;
using Certificate = OpensslPtr<X509, &::X509_free>;
using Key = OpensslPtr<EVP_PKEY, &::EVP_PKEY_free>;
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

Result<SelfSignedCertificate> make_self_signed(const std::vector<std::string>& names, WallTime now,
                                               std::chrono::days validity,
                                               std::string_view key_pem) {
  if (!start_openssl()) return creation_error("OpenSSL cannot be initialised");
  ::ERR_clear_error();
  auto alternatives = GPUYARD_TRY(alternative_names(names));
  auto key = GPUYARD_TRY(key_for(key_pem));
  const Certificate certificate(::X509_new());
  X509* x = certificate.get();
  const bool written = ::X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
                       set_subject(x, names.front()) && set_dates(x, now, validity) &&
                       ::X509_set_pubkey(x, key.get()) == 1 && describe(x, alternatives.get());
  if (!written) return creation_error("setting its fields");
  if (::X509_sign(x, key.get(), ::EVP_sha256()) <= 0) return creation_error("signing it");
  auto text = GPUYARD_TRY(key_to_pem(key.get()));
  return SelfSignedCertificate{certificate_to_pem(x), std::move(text)};
}

}  // namespace gpuyard::http
