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
#include "io/http/openssl.h"

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
using Certificate = OpensslPtr<X509, &::X509_free>;

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

Result<CertificateFacts> parse_facts(std::string_view pem) {
  start_openssl();
  const Bio bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Certificate found(::PEM_read_bio_X509(bio.get(), nullptr, refuse_passphrase, nullptr));
  if (!found) return Error{Errc::invalid, "it contains no certificate in PEM format"};
  return facts_of(found.get());
}

}  // namespace gpuyard::http
