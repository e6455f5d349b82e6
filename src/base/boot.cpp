#include "base/boot.h"

#include <charconv>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard {

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id", 64);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *std::move(text);
}

std::optional<std::uint64_t> process_start_time(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text) return std::nullopt;
  // The command is in parentheses and may itself contain any character: count from the last ')'.
  std::size_t at = text->rfind(')');
  constexpr int kFieldsAfterCommand = 20;
  for (int field = 0; field < kFieldsAfterCommand && at != std::string::npos; ++field) {
    at = text->find(' ', at + 1);
  }
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t ticks = 0;
  const auto parsed = std::from_chars(text->data() + at + 1, text->data() + text->size(), ticks);
  return parsed.ec == std::errc{} ? std::optional(ticks) : std::nullopt;
}

}  // namespace gpuyard
