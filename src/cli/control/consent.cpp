#include "cli/control/consent.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include <fmt/format.h>

#include "base/ascii.h"
#include "cli/screen/terminal.h"

namespace gpuyard::cli {
namespace {

constexpr std::size_t kLongestAnswer = 64;

// A terminal gives a line at a time.
std::string answer_from_stdin() {
  std::array<char, kLongestAnswer> line{};
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, line.data(), line.size());
  } while (count < 0 && errno == EINTR);
  std::string answer(line.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  std::erase_if(answer, [](char c) { return c == ' ' || c == '\n' || c == '\r'; });
  // Where the input ended there was no Enter to end the line of the question.
  if (count <= 0) static_cast<void>(write_all(STDERR_FILENO, "\n").ok());
  return to_lower(answer);
}

}  // namespace

bool can_be_asked() {
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
}

bool consents(std::string_view question) {
  if (!write_all(STDERR_FILENO, fmt::format("{} [y/N] ", question))) return false;
  const std::string answer = answer_from_stdin();
  return answer == "y" || answer == "yes";
}

}  // namespace gpuyard::cli
