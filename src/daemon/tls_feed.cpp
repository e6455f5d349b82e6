#include "daemon/tls_feed.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"

namespace gpuyard::daemon {
namespace {

constexpr std::size_t kMostOfFile = std::size_t{256} * 1024;

using Identity = std::shared_ptr<const http::ServerIdentity>;

// A certificate of ours is renewed when two thirds of its time are over.
bool is_due(const http::CertificateFacts& facts, WallTime now) {
  return now >= facts.not_before + (facts.not_after - facts.not_before) / 3 * 2;
}

Result<void> renew(const http::IdentityFiles& files, WallTime now) {
  const auto old = read_file(files.certificate, kMostOfFile);
  if (!old) return {};  // what is wrong with it is said when it is loaded
  const auto facts = http::facts_in(*old);
  if (!facts || !is_due(*facts, now)) return {};
  const auto key = read_file(files.key, kMostOfFile);
  if (!key) return key.error();
  std::vector<std::string> names;
  for (const std::string& name : facts->names) names.push_back(name.substr(name.find(':') + 1));
  const auto made = http::make_self_signed(names, now, http::kCertificateLife, *key);
  if (!made) return made.error();
  auto done = replace_file(files.certificate, made->certificate, 0644);
  if (done) log::info("{} is renewed with the same key", files.certificate);
  return done;
}

Result<Identity> load(const http::IdentityFiles& files, bool is_ours, const Identity& former) {
  const WallTime now = wall_now();
  if (is_ours) {
    if (auto renewed = renew(files, now); !renewed) {
      log::warning("{} is not renewed: {}", files.certificate, renewed.error().message);
    }
  }
  return http::load_identity(files, now, former);
}

}  // namespace

TlsFeed::TlsFeed(Loop& loop, Worker& worker, const config::Config& config)
    : loop_(loop),
      worker_(worker),
      files_{config.certificate_file(), config.key_file(), config.tls.client_ca},
      is_ours_(config.tls.certificate.empty() && config.tls.key.empty()) {}

Result<void> TlsFeed::open() {
  follow_files();
  const auto identity = load(files_, is_ours_, nullptr);
  if (!identity) {
    Error error = Error(identity.error()).in("tls.listen");
    if (is_ours_) error.message += "; `gpuyard tls init` makes a certificate";
    return error;
  }
  door_ = std::make_shared<http::TlsDoor>(*identity);
  take(identity);
  return {};
}

// Watches the directories: what renews certificates puts new files, or links, in place of the old.
void TlsFeed::follow_files() {
  changes_ = UniqueFd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  std::set<std::string> directories;
  for (const std::string& file : {files_.certificate, files_.key, files_.client_ca}) {
    if (!file.empty()) directories.insert(parent_directory(file));
  }
  for (const std::string& directory : directories) {
    ::inotify_add_watch(changes_.get(), directory.c_str(),
                        IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ATTRIB);
  }
  if (changes_) watch_ = loop_.watch(changes_.get(), [this] { on_changes(); });
}

void TlsFeed::on_changes() {
  std::array<char, 4096> ignored{};
  while (::read(changes_.get(), ignored.data(), ignored.size()) > 0) {
  }
  settled_ = loop_.call_after(kSettled, [this] { reload(); });
}

void TlsFeed::reload() {
  settled_.reset();
  again_ = reading_;
  if (reading_) return;
  reading_ = ask_worker(
      worker_,
      [files = files_, ours = is_ours_, former = door_->identity()] {
        return load(files, ours, former);
      },
      here_.guard([this](const Result<Identity>& identity) {
        reading_ = false;
        take(identity);
        if (std::exchange(again_, false)) reload();
      }));
}

void TlsFeed::take(const Result<Identity>& identity) {
  hourly_ = loop_.call_after(kEvery, [this] { reload(); });
  if (!identity) {
    ++figures_.reload_failures;
    const std::string trouble =
        fmt::format("the certificate stays the one until {}: {}",
                    to_rfc3339(door_->identity()->facts.not_after), identity.error().message);
    if (std::exchange(figures_.trouble, trouble) != trouble) log::error("{}", trouble);
    return;
  }
  const http::CertificateFacts& facts = (*identity)->facts;
  if (facts.fingerprint != door_->identity()->facts.fingerprint || !figures_.expires) {
    log::info("TLS with {}, until {}, pin {}", files_.certificate, to_rfc3339(facts.not_after),
              facts.pin);
    for (const std::string& warning : (*identity)->warnings) log::warning("{}", warning);
  }
  figures_.trouble.clear();
  figures_.expires =
      std::chrono::duration_cast<std::chrono::seconds>(facts.not_after.time_since_epoch()).count();
  door_->show(*identity);
}

void TlsFeed::note(const http::Counters& counters) {
  figures_.handshakes = counters.handshakes_done;
  figures_.failed_handshakes = counters.handshakes_failed;
  figures_.refused_handshakes = counters.handshakes_turned_away;
}

}  // namespace gpuyard::daemon
