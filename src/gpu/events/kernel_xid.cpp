#include "events/kernel_xid.h"

#include <charconv>

#include "device/pci.h"

namespace gpuyard::events {
namespace {

// Eats a literal.
bool take(std::string_view& text, std::string_view literal) {
  if (!text.starts_with(literal)) return false;
  text.remove_prefix(literal.size());
  return true;
}

// Eats all up to `end`, and `end`. Nothing, if that is not there.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  if (at == text.npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

// Eats digits.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return number;
}

// Eats "pid=123, " or "pid='<unknown>', ", with or without more behind it.
std::optional<std::uint32_t> take_pid(std::string_view& text) {
  if (!take(text, "pid=")) return std::nullopt;
  take(text, "'");
  const auto pid = take_number<std::uint32_t>(text);
  if (!take_until(text, ", ")) text = {};
  return pid && *pid != 0 ? pid : std::nullopt;
}

}  // namespace

std::optional<KernelRecord> parse_record(std::string_view line) {
  constexpr std::uint32_t kFirstOfOthers =
      8;  // facility 1, level 0: who writes to the log is no kernel
  const auto priority = take_number<std::uint32_t>(line);
  if (!priority || *priority >= kFirstOfOthers || !take(line, ",")) return std::nullopt;
  const auto sequence = take_number<std::uint64_t>(line);
  if (!sequence || !take(line, ",")) return std::nullopt;
  const auto microseconds = take_number<std::int64_t>(line);
  if (!microseconds || *microseconds < 0 || !take(line, ",")) return std::nullopt;
  if (*microseconds > Duration::max() / std::chrono::microseconds(1)) return std::nullopt;
  if (!take_until(line, ";")) return std::nullopt;
  return KernelRecord{std::chrono::microseconds(*microseconds), line};
}

std::optional<KernelXid> parse_xid(std::string_view message) {
  if (!take(message, "NVRM: Xid (")) return std::nullopt;
  take(message, "PCI:");
  auto place = take_until(message, ")");
  if (!place || !take(message, ": ")) return std::nullopt;
  KernelXid found;
  found.pci_address = place->substr(0, place->find(' '));
  if (!is_pci_slot(found.pci_address)) return std::nullopt;
  const auto number = take_number<std::uint32_t>(message);
  if (!number) return std::nullopt;
  found.xid = *number;
  take(message, ",");
  take(message, " ");
  found.pid = take_pid(message);
  if (take(message, "name=") && !take_until(message, ", ")) message = {};
  found.text = message;
  return found;
}

}  // namespace gpuyard::events
