#include "base/allowed_files.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/files.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace gpuyard {
namespace {

using Rights = std::uint64_t;

// Newer than the kernel headers of the build: from version 3 and 5 of Landlock.
constexpr Rights kTruncate = Rights{1} << 14;
constexpr Rights kControlDevice = Rights{1} << 15;

constexpr Rights kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr Rights kRead = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr Rights kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr Rights kMake = LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
                         LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                         LANDLOCK_ACCESS_FS_REMOVE_DIR;
constexpr Rights kUnusedRights = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                                 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr Rights kFileRights = kReadFile | kWriteFile | kControlDevice;

// The rights that this version of Landlock knows: asking for another is an error.
Rights known_rights(long version) {
  constexpr long kHasTruncate = 3;
  constexpr long kHasControlDevice = 5;
  Rights known = ~Rights{0};
  if (version < kHasTruncate) known &= ~kTruncate;
  if (version < kHasControlDevice) known &= ~kControlDevice;
  return known;
}

class Ruleset {
 public:
  explicit Ruleset(Rights handled) : handled_(handled) {
    const landlock_ruleset_attr attributes{.handled_access_fs = handled};
    // An older kernel refuses a structure that is longer than its own, unless the rest is zero.
    fd_ = UniqueFd(static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
  }

  Result<void> allow(const std::vector<std::string>& paths, Rights rights) {
    for (const std::string& path : paths) {
      GPUYARD_TRY(allow(path, rights));
    }
    return {};
  }

  Result<void> enforce() {
    if (::syscall(SYS_landlock_restrict_self, fd_.get(), 0) == 0) return {};
    return system_error("restricting this process by Landlock");
  }

  explicit operator bool() const { return static_cast<bool>(fd_); }

 private:
  Result<void> allow(const std::string& path, Rights rights) {
    const UniqueFd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat info{};
    if (!place || ::fstat(place.get(), &info) != 0) return {};
    if (!S_ISDIR(info.st_mode)) rights &= kFileRights;
    const landlock_path_beneath_attr rule{.allowed_access = rights & handled_,
                                          .parent_fd = place.get()};
    if (::syscall(SYS_landlock_add_rule, fd_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0) {
      return {};
    }
    return system_error("allowing " + path + " by Landlock");
  }

  Rights handled_;
  UniqueFd fd_;
};

}  // namespace

Result<void> allow_only_files(const AllowedFiles& files) {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 0) {
    Error error = system_error("asking for Landlock");
    error.code = Errc::unavailable;
    return error;
  }
  const Rights everything = kRead | kWriteFile | kMake | kUnusedRights | kControlDevice;
  Ruleset rules(everything & known_rights(version));
  if (!rules) return system_error("making a Landlock ruleset");
  auto done = rules.allow(files.readable, kRead);
  if (done) done = rules.allow(files.writable, kRead | kWriteFile | kMake);
  if (done) done = rules.allow(files.devices, kReadFile | kWriteFile | kControlDevice);
  return done ? rules.enforce() : done;
}

}  // namespace gpuyard
