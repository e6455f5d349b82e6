#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

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

}  // namespace

Error system_error(std::string_view doing) {
  const int code = errno;
  return Error{errc_of(code), fmt::format("{}: {}", doing, std::generic_category().message(code))};
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_error("opening " + path);
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

std::string program_directory() {
  const std::string path = program_path();
  return path.substr(0, path.rfind('/'));
}

Result<void> make_directories(const std::string& path, unsigned mode) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      return system_error("creating " + part);
    }
    if (at != std::string::npos) ++at;
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return system_error("opening " + path);
  if (!S_ISDIR(info.st_mode)) return Error{Errc::conflict, path + " is not a directory"};
  return {};
}

Result<UniqueFd> lock_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return system_error("opening " + path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Error{Errc::conflict, path + " is locked by another process"};
    return system_error("locking " + path);
  }
  return file;
}

}  // namespace gpuyard
