#include "daemon/certificate_reloader.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/try.h"
#include "daemon/serve.h"
#include "io/http/self_signed.h"

namespace gpuyard::daemon {
namespace {

constexpr std::size_t kMaxCertificateFile = std::size_t{256} * 1024;

using Identity = std::shared_ptr<const http::ServerIdentity>;

// A certificate of ours is renewed when two thirds of its time are over.
bool is_due(const http::CertificateFacts& facts, WallTime now) {
  return now >= facts.not_before + (facts.not_after - facts.not_before) / 3 * 2;
}

Result<void> renew(const http::IdentityFiles& files,
                   const CertificateReloader::RenewalPolicy& policy) {
  const auto old = read_file(files.certificate, kMaxCertificateFile);
  if (!old) return {};  // loading it reports the error
  const auto facts = http::parse_facts(*old);
  if (!facts) return {};
  const bool from_the_future = facts->not_before > policy.now;
  if (!from_the_future && !is_due(*facts, policy.now)) return {};
  if (!(from_the_future ? policy.corrections : policy.renewals)) {
    return Error{
        Errc::unavailable,
        "this machine's clock is too far from the last time known to be correct; set the clock"};
  }
  const auto key = GPUYARD_TRY(read_file(files.key, kMaxCertificateFile));
  std::vector<std::string> names;
  for (const std::string& name : facts->names) names.push_back(name.substr(name.find(':') + 1));
  const auto made =
      GPUYARD_TRY(http::make_self_signed(names, policy.now, http::kCertificateLifetime, key));
  auto done = replace_file(files.certificate, made.certificate, 0644);
  if (done) log::info("{} renewed with the same key", files.certificate);
  return done;
}

// Watches the directories: a renewal puts new files, or links, in place of the old.
// Repeated at each read: a directory may have been created since.
void watch_directories(const UniqueFd& inotify, const http::IdentityFiles& files) {
  std::set<std::string> directories;
  for (const std::string& file : {files.certificate, files.key, files.client_ca}) {
    if (!file.empty()) directories.insert(parent_directory(file));
  }
  for (const std::string& directory : directories) {
    ::inotify_add_watch(inotify.get(), directory.c_str(),
                        IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ATTRIB);
  }
}

Result<Identity> load(const http::IdentityFiles& files,
                      const CertificateReloader::RenewalPolicy& policy, const Identity& former) {
  for (const std::string& file : {files.certificate, files.key, files.client_ca}) {
    if (file.empty()) continue;
    GPUYARD_TRY(check_trusted_path(file, "it decides whom clients trust"));
  }
  const auto renewed = files.is_generated ? renew(files, policy) : Result<void>();
  auto identity = http::load_identity(files, policy.now, former);
  if (renewed) return identity;
  const std::string why =
      fmt::format("could not renew {}: {}", files.certificate, renewed.error().text());
  if (!identity) return Error{Errc::invalid, identity.error().text() + "; " + why};
  log::warning("{}", why);
  return identity;
}

// The time of the last write to the state, which the daemon has not opened yet.
std::optional<WallTime> newest_write(const std::string& state_directory) {
  std::optional<WallTime> newest;
  for (const char* name : {"/state.db", "/state.db-wal"}) {
    struct stat info{};
    if (::stat((state_directory + name).c_str(), &info) != 0) continue;
    const WallTime written{std::chrono::seconds(info.st_mtim.tv_sec)};
    newest = std::max(newest.value_or(written), written);
  }
  return newest;
}

}  // namespace

CertificateReloader::CertificateReloader(Loop& loop, Worker& worker, const config::Config& config)
    : loop_(loop),
      worker_(worker),
      files_{config.certificate_file(), config.key_file(), config.tls.client_ca,
             config.tls.certificate.empty() && config.tls.key.empty()} {
  if (const auto written = newest_write(config.state.directory))
    trusted_time_ = {*written, loop.now()};
}

void CertificateReloader::open(std::function<void()> on_usable) {
  on_usable_ = std::move(on_usable);
  watch_files();
  on_loaded(load(files_, renewal_policy(), nullptr));
}

CertificateReloader::RenewalPolicy CertificateReloader::renewal_policy() {
  RenewalPolicy policy{.now = loop_.wall()};
  if (trusted_time_) {
    using std::chrono::milliseconds;
    const WallTime expected = trusted_time_->wall + std::chrono::duration_cast<milliseconds>(
                                                        loop_.now() - trusted_time_->at);
    policy.corrections =
        policy.now > expected - kMaxClockOffset && policy.now < expected + kMaxClockOffset;
    policy.renewals = policy.corrections && policy.now >= expected - kMaxClockSetback;
  }
  if (policy.renewals) trusted_time_ = {policy.now, loop_.now()};
  return policy;
}

void CertificateReloader::watch_files() {
  inotify_ = std::make_shared<const UniqueFd>(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  watch_directories(*inotify_, files_);
  if (*inotify_) watch_ = loop_.watch(inotify_->get(), [this] { on_files_changed(); });
}

void CertificateReloader::on_files_changed() {
  std::array<char, 4096> ignored{};
  while (::read(inotify_->get(), ignored.data(), ignored.size()) > 0) {
  }
  settle_timer_ = loop_.call_after(kSettleDelay, [this] { reload(); });
}

void CertificateReloader::reload() {
  settle_timer_.reset();
  reload_pending_ = reading_;
  if (reading_) return;
  reading_ = run_on_worker(
      worker_,
      [inotify = inotify_, files = files_, policy = renewal_policy(),
       former = identity_source_->identity()] {
        watch_directories(*inotify, files);
        return load(files, policy, former);
      },
      lifetime_.guard([this](const Result<Identity>& identity) {
        reading_ = false;
        on_loaded(identity);
        if (std::exchange(reload_pending_, false)) reload();
      }));
  if (!reading_) reload_timer_ = loop_.call_after(kRetryDelay, [this] { reload(); });
}

void CertificateReloader::on_loaded(const Result<Identity>& identity) {
  reload_timer_ = loop_.call_after(identity ? kReloadInterval : kRetryDelay, [this] { reload(); });
  if (!identity) return record_failure(identity.error());
  const http::CertificateFacts& facts = (*identity)->facts;
  const Identity& former = identity_source_->identity();
  if (former == nullptr || facts.fingerprint != former->facts.fingerprint) {
    log::info("using TLS certificate {}, valid until {}, pin {}", files_.certificate,
              to_rfc3339(facts.not_after), facts.pin);
    for (const std::string& warning : (*identity)->warnings) log::warning("{}", warning);
  }
  tls_metrics_.reload_error.clear();
  tls_metrics_.expires_at =
      std::chrono::duration_cast<std::chrono::seconds>(facts.not_after.time_since_epoch()).count();
  identity_source_->set_identity(*identity);
  if (const auto on_usable = std::exchange(on_usable_, nullptr)) on_usable();
}

// Counts and logs each fault once, however often the files are read.
void CertificateReloader::record_failure(const Error& why) {
  const Identity& current = identity_source_->identity();
  std::string message;
  if (current != nullptr) {
    message = fmt::format("the certificate valid until {} stays in use: {}",
                          to_rfc3339(current->facts.not_after), why.text());
  } else {
    message = fmt::format("tls.listen is closed until this is fixed: {}", why.text());
  }
  if (std::exchange(tls_metrics_.reload_error, message) == message) return;
  ++tls_metrics_.reload_failures;
  log::error("{}", message);
}

void CertificateReloader::update_counters(const http::ServerCounters& counters) {
  tls_metrics_.handshakes = counters.handshakes_done;
  tls_metrics_.failed_handshakes = counters.handshakes_failed;
  tls_metrics_.refused_handshakes = counters.handshakes_rejected;
}

}  // namespace gpuyard::daemon
