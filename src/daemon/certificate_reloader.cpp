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
#include "daemon/serve.h"

namespace gpuyard::daemon {
namespace {

constexpr std::size_t kMostOfFile = std::size_t{256} * 1024;

using Identity = std::shared_ptr<const http::ServerIdentity>;

// A certificate of ours is renewed when two thirds of its time are over.
bool is_due(const http::CertificateFacts& facts, WallTime now) {
  return now >= facts.not_before + (facts.not_after - facts.not_before) / 3 * 2;
}

Result<void> renew(const http::IdentityFiles& files, const CertificateReloader::Dating& dating) {
  const auto old = read_file(files.certificate, kMostOfFile);
  if (!old) return {};  // what is wrong with it is said when it is loaded
  const auto facts = http::facts_in(*old);
  if (!facts) return {};
  const bool from_the_future = facts->not_before > dating.now;
  if (!from_the_future && !is_due(*facts, dating.now)) return {};
  if (!(from_the_future ? dating.corrections : dating.renewals)) {
    return Error{
        Errc::unavailable,
        "this machine's clock is too far from the last time known to be correct; set the clock"};
  }
  const auto key = read_file(files.key, kMostOfFile);
  if (!key) return key.error();
  std::vector<std::string> names;
  for (const std::string& name : facts->names) names.push_back(name.substr(name.find(':') + 1));
  const auto made = http::make_self_signed(names, dating.now, http::kCertificateLife, *key);
  if (!made) return made.error();
  auto done = replace_file(files.certificate, made->certificate, 0644);
  if (done) log::info("{} renewed with the same key", files.certificate);
  return done;
}

// Watches the directories: what renews certificates puts new files, or links, in place of the old.
// Repeated at each read: a directory may have been created since.
void watch_directories(const UniqueFd& changes, const http::IdentityFiles& files) {
  std::set<std::string> directories;
  for (const std::string& file : {files.certificate, files.key, files.client_ca}) {
    if (!file.empty()) directories.insert(parent_directory(file));
  }
  for (const std::string& directory : directories) {
    ::inotify_add_watch(changes.get(), directory.c_str(),
                        IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ATTRIB);
  }
}

Result<Identity> load(const http::IdentityFiles& files, const CertificateReloader::Dating& dating,
                      const Identity& former) {
  for (const std::string& file : {files.certificate, files.key, files.client_ca}) {
    if (file.empty()) continue;
    auto own = check_own(file, "it decides whom clients trust");
    if (!own) return std::move(own).error();
  }
  const auto renewed = files.is_ours ? renew(files, dating) : Result<void>();
  auto identity = http::load_identity(files, dating.now, former);
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
  if (const auto written = newest_write(config.state.directory)) known_ = {*written, loop.now()};
}

void CertificateReloader::open(std::function<void()> usable) {
  usable_ = std::move(usable);
  follow_files();
  take(load(files_, dating(), nullptr));
}

CertificateReloader::Dating CertificateReloader::dating() {
  Dating dating{.now = loop_.wall()};
  if (known_) {
    using std::chrono::milliseconds;
    const WallTime expected =
        known_->wall + std::chrono::duration_cast<milliseconds>(loop_.now() - known_->at);
    dating.corrections = dating.now > expected - kFarOff && dating.now < expected + kFarOff;
    dating.renewals = dating.corrections && dating.now >= expected - kSetBack;
  }
  if (dating.renewals) known_ = {dating.now, loop_.now()};
  return dating;
}

void CertificateReloader::follow_files() {
  changes_ = std::make_shared<const UniqueFd>(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  watch_directories(*changes_, files_);
  if (*changes_) watch_ = loop_.watch(changes_->get(), [this] { on_changes(); });
}

void CertificateReloader::on_changes() {
  std::array<char, 4096> ignored{};
  while (::read(changes_->get(), ignored.data(), ignored.size()) > 0) {
  }
  settled_ = loop_.call_after(kSettled, [this] { reload(); });
}

void CertificateReloader::reload() {
  settled_.reset();
  again_ = reading_;
  if (reading_) return;
  reading_ = ask_worker(
      worker_,
      [changes = changes_, files = files_, dating = dating(), former = door_->identity()] {
        watch_directories(*changes, files);
        return load(files, dating, former);
      },
      here_.guard([this](const Result<Identity>& identity) {
        reading_ = false;
        take(identity);
        if (std::exchange(again_, false)) reload();
      }));
  if (!reading_) next_ = loop_.call_after(kAgain, [this] { reload(); });
}

void CertificateReloader::take(const Result<Identity>& identity) {
  next_ = loop_.call_after(identity ? kEvery : kAgain, [this] { reload(); });
  if (!identity) return refuse(identity.error());
  const http::CertificateFacts& facts = (*identity)->facts;
  const Identity& former = door_->identity();
  if (former == nullptr || facts.fingerprint != former->facts.fingerprint) {
    log::info("using TLS certificate {}, valid until {}, pin {}", files_.certificate,
              to_rfc3339(facts.not_after), facts.pin);
    for (const std::string& warning : (*identity)->warnings) log::warning("{}", warning);
  }
  figures_.trouble.clear();
  figures_.expires =
      std::chrono::duration_cast<std::chrono::seconds>(facts.not_after.time_since_epoch()).count();
  door_->show(*identity);
  if (const auto usable = std::exchange(usable_, nullptr)) usable();
}

// Counts and logs each fault once, however often the files are read.
void CertificateReloader::refuse(const Error& why) {
  const Identity& shown = door_->identity();
  std::string trouble;
  if (shown != nullptr) {
    trouble = fmt::format("the certificate valid until {} stays in use: {}",
                          to_rfc3339(shown->facts.not_after), why.text());
  } else {
    trouble = fmt::format("tls.listen is closed until this is fixed: {}", why.text());
  }
  if (std::exchange(figures_.trouble, trouble) == trouble) return;
  ++figures_.reload_failures;
  log::error("{}", trouble);
}

void CertificateReloader::note(const http::Counters& counters) {
  figures_.handshakes = counters.handshakes_done;
  figures_.failed_handshakes = counters.handshakes_failed;
  figures_.refused_handshakes = counters.handshakes_turned_away;
}

}  // namespace gpuyard::daemon
