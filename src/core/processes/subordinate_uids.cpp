#include "processes/subordinate_uids.h"

#include <charconv>
#include <limits>
#include <optional>

#include "base/files.h"
#include "base/log.h"
#include "processes/user_names.h"

namespace gpuyard::processes {
namespace {

constexpr const char* kFile = "/etc/subuid";
constexpr std::size_t kMostBytes = std::size_t{4} << 20U;

std::optional<uid_t> uid_in(std::string_view text) {
  uid_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = failed == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

// What comes before the separator, which is taken away with it; all, if there is none.
std::string_view cut_at(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return taken;
}

std::optional<uid_t> owner_of(std::string_view name, const SubordinateUids::LookUp& uid_of) {
  if (const auto uid = uid_in(name)) return uid;
  const auto uid = uid_of(std::string(name));
  return uid ? std::optional(*uid) : std::nullopt;
}

}  // namespace

SubordinateUids SubordinateUids::parse(std::string_view text, const LookUp& uid_of) {
  SubordinateUids all;
  while (!text.empty()) {
    std::string_view line = cut_at(text, '\n');
    const std::string_view name = cut_at(line, ':');
    const auto first = uid_in(cut_at(line, ':'));
    const auto count = uid_in(line);
    if (name.empty() || !first || !count || *count == 0 || *first == 0) continue;
    const uid_t last = *count - 1 > std::numeric_limits<uid_t>::max() - *first
                           ? std::numeric_limits<uid_t>::max()
                           : *first + (*count - 1);
    const uid_t owner = owner_of(name, uid_of).value_or(0);
    all.ranges_.insert_or_assign(*first, Range{last, owner == 0 ? *first : owner});
  }
  return all;
}

SubordinateUids SubordinateUids::of_this_machine() {
  const auto text = read_file(kFile, kMostBytes);
  if (text) return parse(*text, look_up_uid);
  log::debug("who is behind subordinate uids is not known: {}", text.error().message);
  return {};
}

uid_t SubordinateUids::person(uid_t uid) const {
  const auto after = ranges_.upper_bound(uid);
  if (after == ranges_.begin()) return uid;
  const auto& range = std::prev(after)->second;
  return uid <= range.last ? range.owner : uid;
}

}  // namespace gpuyard::processes
