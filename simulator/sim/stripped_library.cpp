#include "sim/stripped_library.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/unique_fd.h"

namespace gpuyard::sim {
namespace {

constexpr std::size_t kMaxLibraryBytes = std::size_t{64} << 20;

// Renames a function in the string tables, where a name stands between two zeroes. The function
// keeps its place in the hash table under its old name: a loader compares the names there and finds
// a different one.
bool rename(std::string& library, const std::string& function) {
  std::string entry(1, '\0');
  entry += function;
  entry += '\0';
  bool found = false;
  for (std::size_t at = library.find(entry); at != std::string::npos;
       at = library.find(entry, at + 1)) {
    library[at + 1] = 'x';
    found = true;
  }
  return found;
}

Result<void> write_file(const std::string& path, const std::string& content) {
  ::unlink(path.c_str());
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file || ::fchmod(file.get(), 0644) != 0) return system_error("creating " + path);
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t wrote = ::write(file.get(), content.data() + done, content.size() - done);
    if (wrote <= 0) return system_error("writing " + path);
    done += static_cast<std::size_t>(wrote);
  }
  return {};
}

}  // namespace

Result<void> write_stripped_library(const std::vector<std::string>& functions,
                                    const std::string& library, const std::string& copy) {
  auto content = read_file(library, kMaxLibraryBytes);
  if (!content) return std::move(content).error();
  for (const std::string& function : functions) {
    if (!function.starts_with("nvml") || !rename(*content, function)) {
      return Error{Errc::invalid, "unknown NVML function \"" + function + "\""};
    }
  }
  return write_file(copy, *content);
}

}  // namespace gpuyard::sim
