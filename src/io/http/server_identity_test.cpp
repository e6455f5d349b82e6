// A server's certificate and key: what it says of them, and which it refuses, and why.
#include <gmock/gmock.h>

#include <openssl/rsa.h>

#include "io/http/server_identity.h"
#include "io/http/tls_client_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::days;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLocalNames = "DNS:localhost,IP:127.0.0.1";

class LoadIdentity : public testing::Test {
 protected:
  void expect_refused(const std::string& file, const std::string& why, WallTime now = wall_now()) {
    const auto loaded = load_identity(ours_.files, now);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Errc::invalid);
    EXPECT_THAT(loaded.error().text(), AllOf(HasSubstr(file), HasSubstr(why)));
  }
  void use(const TestCertificate& certificate) {
    certificate.write_to(ours_.files.certificate);
    certificate.write_key_to(ours_.files.key);
  }
  const ScratchDirectory& directory() const { return ours_.directory(); }

  IdentityForTests ours_;
};

TEST(SelfSigned, CertificateIsValid397DaysForGivenNames) {
  const WallTime now = wall_now();
  const IdentityForTests ours;
  const auto identity = ours.load();
  ASSERT_TRUE(identity);
  EXPECT_THAT(identity->facts.names, ElementsAre("DNS:localhost", "IP:127.0.0.1"));
  EXPECT_EQ(identity->facts.not_after - identity->facts.not_before, days(397));
  EXPECT_LT(identity->facts.not_before, now);
  EXPECT_THAT(identity->warnings, IsEmpty());
  EXPECT_FALSE(identity->requests_certificates);
}

TEST(SelfSigned, RenewalWithSameKeyKeepsPin) {
  IdentityForTests ours;
  const CertificateFacts first = ours.load()->facts;
  ours.renew(ours.key());
  const CertificateFacts renewed = ours.load()->facts;
  EXPECT_EQ(first.pin, renewed.pin);
  EXPECT_NE(first.fingerprint, renewed.fingerprint);
  ours.renew();
  EXPECT_NE(ours.load()->facts.pin, first.pin);
  EXPECT_TRUE(is_pin(first.pin)) << first.pin;
}

TEST(SelfSigned, InvalidNameOrKeyIsRefused) {
  for (const char* name : {"", "a,DNS:b", "a b", "https://a", "a/b"}) {
    const auto made = make_self_signed({name}, wall_now());
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code, Errc::invalid);
  }
  EXPECT_FALSE(make_self_signed({}, wall_now()));
  EXPECT_FALSE(make_self_signed({"a"}, wall_now(), kCertificateLifetime, "no key"));
  EXPECT_TRUE(make_self_signed({"fe80::1", "*.example.com", std::string(200, 'a')}, wall_now()));
}

TEST(Fingerprint, IsReadAsPeopleWriteIt) {
  std::string with_colons;
  for (int i = 0; i < 32; ++i) with_colons += with_colons.empty() ? "AB" : ":AB";
  std::string plain;
  for (int i = 0; i < 32; ++i) plain += "ab";
  EXPECT_EQ(*to_fingerprint(with_colons), plain);
  EXPECT_EQ(*to_fingerprint(plain), plain);
  EXPECT_FALSE(to_fingerprint(plain.substr(1)));
  EXPECT_FALSE(to_fingerprint("g" + plain.substr(1)));
}

TEST_F(LoadIdentity, MissingEmptyOrDamagedFileIsRefused) {
  ours_.files.certificate = directory().in("nowhere");
  expect_refused("/nowhere", "No such file");
  ours_.files.certificate = directory().path();
  expect_refused(directory().path(), "is not a regular file");
  ours_.files.certificate = directory().write("empty", "");
  expect_refused("/empty", "contains no PEM certificate");
  ours_.files.certificate =
      directory().write("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  expect_refused("/broken", "contains a damaged certificate");
}

TEST_F(LoadIdentity, RefusesAKeyThatOthersCanRead) {
  ours_.files.key = directory().write("open.key", ours_.key(), 0644);
  expect_refused("/open.key", "its mode 0644 lets others read it; try `chmod 0600");
  ours_.files.key = directory().write("group.key", ours_.key(), 0640);
  EXPECT_TRUE(load_identity(ours_.files, wall_now()));
}

TEST_F(LoadIdentity, RefusesAKeyThatIsNoneOrHasAPassphrase) {
  ours_.files.key = directory().write("none.key", "hello");
  expect_refused("/none.key", "contains no PEM private key");
  ours_.files.key = directory().write("locked.key",
                                      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n"
                                      "-----END ENCRYPTED PRIVATE KEY-----\n");
  expect_refused("/locked.key", "contains a key with a passphrase");
}

TEST_F(LoadIdentity, RefusesTheKeyOfAnotherCertificate) {
  TestCertificate(kLocalNames).write_key_to(directory().in("other.key"));
  ours_.files.key = directory().in("other.key");
  expect_refused("/other.key", "is not the key of the certificate");
}

TEST_F(LoadIdentity, WantsTheKeysCertificateFirst) {
  const std::string ours = directory().read("tls.crt");
  TestCertificate(kLocalNames).write_to(directory().in("other.crt"));
  const std::string other = directory().read("other.crt");
  directory().write("tls.crt", other + ours);
  expect_refused("/tls.crt", "after others; put it first");
  directory().write("tls.crt", ours + other);
  EXPECT_THAT(ours_.load()->warnings,
              ElementsAre(HasSubstr("certificate 2 did not sign the one before it")));
}

TEST_F(LoadIdentity, ExpiredOrFutureCertificateIsRefused) {
  expect_refused("/tls.crt", "expired at", wall_now() + days(397));
  expect_refused("/tls.crt", "is not valid before", wall_now() - days(1));
  use(TestCertificate(kLocalNames, -60));
  expect_refused("/tls.crt", "renew the certificate");
}

TEST_F(LoadIdentity, UsesOurOwnCertificateBeforeItsTime) {
  const WallTime early = wall_now() - days(10);
  expect_refused("/tls.crt", "is not valid before", early);
  ours_.files.is_generated = true;
  EXPECT_TRUE(load_identity(ours_.files, early));
  expect_refused("/tls.crt", "expired at", wall_now() + days(397));
}

TEST_F(LoadIdentity, ReplacesTicketKeysAfterADay) {
  const WallTime now = wall_now();
  const auto first = load_identity(ours_.files, now);
  ASSERT_TRUE(first);
  const auto keys_at = [&](WallTime later) {
    const auto next = load_identity(ours_.files, later, *first);
    EXPECT_TRUE(next);
    return next ? *(*next)->ticket_keys : "";
  };
  EXPECT_EQ(keys_at(now + std::chrono::hours(23)), *(*first)->ticket_keys);
  EXPECT_NE(keys_at(now + kTicketKeyLifetime), *(*first)->ticket_keys);
  EXPECT_NE(keys_at(now - std::chrono::milliseconds(1)), *(*first)->ticket_keys);
}

TEST_F(LoadIdentity, SlowKeyWarnsAndUnsupportedKeyIsRefused) {
  use(TestCertificate(kLocalNames, 3600, EVP_RSA_gen(2048)));
  EXPECT_THAT(ours_.load()->warnings, IsEmpty());
  use(TestCertificate(kLocalNames, 3600, EVP_RSA_gen(4096)));
  EXPECT_THAT(ours_.load()->warnings, ElementsAre(HasSubstr("RSA key of 4096 bits")));
  use(TestCertificate(kLocalNames, 3600, EVP_EC_gen("P-384")));
  EXPECT_THAT(ours_.load()->warnings, IsEmpty());
  for (const char* curve : {"P-521", "secp256k1"}) {
    use(TestCertificate(kLocalNames, 3600, EVP_EC_gen(curve)));
    expect_refused("/tls.key", "is of a type that clients do not accept; use a P-256 key");
  }
  use(TestCertificate(kLocalNames, 3600, EVP_RSA_gen(1024)));
  expect_refused("/tls.key", "is of a type that clients do not accept");
}

TEST_F(LoadIdentity, CertificateWithoutAlternativeNamesWarns) {
  use(TestCertificate("email:a@example.com"));
  EXPECT_THAT(ours_.load()->warnings, ElementsAre(HasSubstr("no subject alternative names")));
}

TEST_F(LoadIdentity, RefusesRootsForClientsThatAreNone) {
  ours_.files.client_ca = directory().write("clients", "hello");
  expect_refused("/clients", "contains no certificates to verify clients with");
  ours_.files.client_ca = directory().in("nowhere");
  expect_refused("/nowhere", "cannot be read");
}

}  // namespace
}  // namespace gpuyard::http
