#include "daemon/certificate_reloader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/http/certificate.h"
#include "io/http/self_signed.h"

namespace gpuyard::daemon {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

class CertificateReloaderTest : public ::testing::Test {
 protected:
  CertificateReloaderTest() {
    config_.state.directory = directory_.path();
    write_state();
  }

  // Sets the last write to the state to the loop's wall time.
  void write_state() {
    const std::string file = directory_.write("state.db", "");
    const timespec at{.tv_sec = loop_.wall().time_since_epoch() / milliseconds(1000), .tv_nsec = 0};
    const std::array<timespec, 2> times{at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times.data(), 0), 0);
  }
  // Creates a certificate like `gpuyard tls init`, with a clock that is this far ahead.
  void make(milliseconds ahead = {}) {
    const std::string key = directory_.read("tls/key.pem");
    const auto made = http::make_self_signed({"localhost"}, loop_.wall() + ahead,
                                             http::kCertificateLifetime, key);
    ASSERT_TRUE(made) << made.error().message;
    directory_.write("tls/certificate.pem", made->certificate);
    directory_.write("tls/key.pem", made->key);
  }
  http::CertificateFacts in_file() const {
    const auto facts = http::parse_facts(directory_.read("tls/certificate.pem"));
    EXPECT_TRUE(facts);
    return facts ? *facts : http::CertificateFacts{};
  }
  void start() {
    reloader_.emplace(loop_, worker_, config_);
    reloader_->open([this] { ++usable_; });
  }
  void reload() {
    reloader_->reload();
    worker_.run_all();
  }
  void pass(Duration time) {
    loop_.advance(time);
    worker_.run_all();
  }
  const std::string& trouble() const { return reloader_->tls_metrics().reload_error; }
  bool shows_file() const {
    const auto& shown = reloader_->identity_source()->identity();
    return shown != nullptr && shown->facts.fingerprint == in_file().fingerprint;
  }

  const CapturedLog log_;
  const ScratchDirectory directory_;
  config::Config config_;
  ManualLoop loop_;
  ManualWorker worker_;
  int usable_ = 0;
  std::optional<CertificateReloader> reloader_;
};

TEST_F(CertificateReloaderTest, ValidCertificateIsUsableAtOnce) {
  make();
  start();
  EXPECT_EQ(usable_, 1);
  EXPECT_TRUE(shows_file());
  EXPECT_EQ(trouble(), "");
}

TEST_F(CertificateReloaderTest, OnlyRootCreatesTheCertificateOfTheService) {
  ::setenv("GPUYARD_SYSTEM_SERVICE", "1", 1);
  start();
  ::unsetenv("GPUYARD_SYSTEM_SERVICE");
  EXPECT_THAT(trouble(), HasSubstr("try `sudo gpuyard tls init`"));
}

TEST_F(CertificateReloaderTest, ListenerStaysClosedUntilACertificateExists) {
  start();
  EXPECT_EQ(usable_, 0);
  EXPECT_EQ(reloader_->identity_source()->identity(), nullptr);
  EXPECT_THAT(trouble(), HasSubstr("tls.listen is closed until this is fixed: "));
  EXPECT_THAT(trouble(), HasSubstr("try `gpuyard tls init`"));
  EXPECT_FALSE(reloader_->tls_metrics().expires_at);
  pass(CertificateReloader::kRetryDelay);
  EXPECT_EQ(usable_, 0);
  EXPECT_EQ(reloader_->tls_metrics().reload_failures, 1U);  // logged once
  make();
  pass(CertificateReloader::kRetryDelay);
  EXPECT_EQ(usable_, 1);
  EXPECT_TRUE(shows_file());
  EXPECT_EQ(trouble(), "");
}

TEST_F(CertificateReloaderTest, MissingClientCaIsNamedWithItsKey) {
  make();
  config_.tls.client_ca = directory_.path() + "/ca.pem";
  start();
  EXPECT_THAT(trouble(), AllOf(HasSubstr("tls.client_ca: "), HasSubstr("/ca.pem cannot be read")));
  EXPECT_THAT(trouble(), Not(HasSubstr("tls init")));
}

TEST_F(CertificateReloaderTest, CertificateStaysInUseIfItsFilesBreak) {
  make();
  start();
  directory_.write("tls/key.pem", "no key");
  reload();
  EXPECT_THAT(trouble(), HasSubstr("the certificate valid until"));
  EXPECT_TRUE(shows_file());
  EXPECT_EQ(usable_, 1);
}

TEST_F(CertificateReloaderTest, OwnCertificateIsRenewedAfterTwoThirds) {
  make();
  start();
  const std::string pin = in_file().pin;
  const WallTime end = in_file().not_after;
  for (int day = 0; day < 270; ++day) pass(hours(24));
  EXPECT_GT(in_file().not_after, end);
  EXPECT_EQ(in_file().pin, pin);
  EXPECT_TRUE(shows_file());
}

TEST_F(CertificateReloaderTest, ClockFarAheadPreventsRenewal) {
  make();
  start();
  const auto before = in_file();
  loop_.step_wall(days(400));
  reload();
  EXPECT_EQ(in_file().fingerprint, before.fingerprint);
  EXPECT_THAT(trouble(),
              HasSubstr("this machine's clock is too far from the last time known to be correct"));
  loop_.step_wall(-days(400));
  reload();
  EXPECT_EQ(trouble(), "");
  EXPECT_TRUE(shows_file());
  // A daemon that starts with this clock renews nothing either.
  loop_.step_wall(days(400));
  usable_ = 0;
  start();
  EXPECT_EQ(in_file().fingerprint, before.fingerprint);
  EXPECT_EQ(usable_, 0);
  loop_.step_wall(-days(400));
  pass(CertificateReloader::kRetryDelay);
  EXPECT_EQ(usable_, 1);
}

TEST_F(CertificateReloaderTest, FutureOwnCertificateIsReplacedWithSameKey) {
  make(days(400));
  const auto future = in_file();
  start();
  EXPECT_EQ(usable_, 1);
  EXPECT_TRUE(shows_file());
  EXPECT_EQ(in_file().pin, future.pin);
  EXPECT_LT(in_file().not_before, loop_.wall());
}

TEST_F(CertificateReloaderTest, BrieflyWrongClockDoesNoHarm) {
  make();
  start();
  loop_.step_wall(days(300));
  reload();
  EXPECT_GT(in_file().not_before,
            loop_.wall() - days(30));  // due according to that clock, and renewed
  loop_.step_wall(-days(300));
  reload();
  EXPECT_LT(in_file().not_before, loop_.wall());
  EXPECT_TRUE(shows_file());
  usable_ = 0;
  start();
  EXPECT_EQ(usable_, 1);
}

TEST_F(CertificateReloaderTest, ClockResetToThePastChangesNoFile) {
  make();
  const auto before = in_file();
  loop_.step_wall(-days(5000));
  start();
  EXPECT_EQ(usable_, 1) << "an own certificate is used even before it is valid";
  EXPECT_EQ(in_file().fingerprint, before.fingerprint);
}

TEST_F(CertificateReloaderTest, FutureForeignCertificateIsNotUsed) {
  make(days(400));
  config_.tls.certificate = directory_.in("tls/certificate.pem");
  config_.tls.key = directory_.in("tls/key.pem");
  start();
  EXPECT_EQ(usable_, 0);
  EXPECT_THAT(trouble(), HasSubstr("is not valid before"));
}

TEST_F(CertificateReloaderTest, TicketKeysAreReplacedDaily) {
  make();
  start();
  const std::string first = *reloader_->identity_source()->identity()->ticket_keys;
  for (int hour = 0; hour < 23; ++hour) pass(CertificateReloader::kReloadInterval);
  EXPECT_EQ(*reloader_->identity_source()->identity()->ticket_keys, first);
  pass(CertificateReloader::kReloadInterval);
  EXPECT_NE(*reloader_->identity_source()->identity()->ticket_keys, first);
}

}  // namespace
}  // namespace gpuyard::daemon
