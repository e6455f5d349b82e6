#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "base/try.h"

namespace gpuyard {
namespace {

Errc errc_of(int code) {
  switch (code) {
    case ENOENT:
      return Errc::not_found;
    case EACCES:
    case EPERM:
      return Errc::denied;
    case EADDRINUSE:
    case EEXIST:
      return Errc::conflict;
    default:
      return Errc::internal;
  }
}

// Makes one directory. The caller judges whatever exists there already.
Result<void> make_directory(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) != 0) {
    if (errno == EEXIST) return {};
    return system_error("creating " + path);
  }
  // Sets the mode through the open directory: under a umask of 077 others could not enter
  // directories made for them.
  const UniqueFd made(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made || ::fchmod(made.get(), mode) != 0) return system_error("setting the mode of " + path);
  return {};
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

DeniedFileOpener& denied_file_opener() {
  static DeniedFileOpener instance;
  return instance;
}

bool is_denied(int error) {
  return error == EACCES || error == EPERM;
}

}  // namespace

Error system_error(std::string_view doing) {
  const int code = errno;
  return Error{errc_of(code), fmt::format("{}: {}", doing, std::generic_category().message(code))};
}

void set_denied_file_opener(DeniedFileOpener open) {
  denied_file_opener() = std::move(open);
}

Result<UniqueFd> open_to_read(const std::string& path, int flags) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (file) return file;
  const bool denied = is_denied(errno);
  const Error error = system_error("opening " + path);
  if (!denied || !denied_file_opener()) return error;
  auto given = denied_file_opener()(path);
  return given ? std::move(given) : Result<UniqueFd>(error);
}

Result<struct stat> stat_file(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return info;
  const bool denied = is_denied(errno);
  const Error error = system_error("opening " + path);
  if (!denied || !denied_file_opener()) return error;
  const auto given = denied_file_opener()(path);
  if (!given || ::fstat(given->get(), &info) != 0) return error;
  return info;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const auto file = GPUYARD_TRY(open_to_read(path));
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("reading " + path);
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > limit) {
      return Error{Errc::invalid, fmt::format("{} is larger than {} bytes", path, limit)};
    }
  }
}

std::string program_path() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string parent_directory(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> make_directories(const std::string& path, unsigned mode) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    GPUYARD_TRY(make_directory(part, mode));
    if (at != std::string::npos) ++at;
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return system_error("opening " + path);
  if (!S_ISDIR(info.st_mode)) return Error{Errc::conflict, path + " is not a directory"};
  return {};
}

Result<void> check_private_directory(const std::string& path) {
  const std::string name = without_trailing_slashes(path);  // with one, lstat would follow a link
  struct stat info{};
  if (::lstat(name.c_str(), &info) != 0) return system_error("opening " + name);
  if (!S_ISDIR(info.st_mode)) return Error{Errc::denied, name + " is not a directory"};
  if (info.st_uid != ::geteuid()) return Error{Errc::denied, name + " belongs to another user"};
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{Errc::denied, name + " is writable by other users"};
  }
  return {};
}

Result<void> make_private_directory(const std::string& path, unsigned mode) {
  GPUYARD_TRY(make_directory(without_trailing_slashes(path), mode));
  return check_private_directory(path);
}

Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode) {
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());
  const UniqueFd file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  const bool written =
      file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  const Error why = system_error("writing " + path);
  if (written) return {};
  ::unlink(draft.c_str());
  return why;
}

Result<UniqueFd> lock_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return system_error("opening " + path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Error{Errc::conflict, path + " is locked by another process"};
    return system_error("locking " + path);
  }
  return file;
}

}  // namespace gpuyard
