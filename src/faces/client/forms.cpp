#include "faces/client/forms.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/log.h"
#include "base/text.h"

namespace gpuyard::client {
namespace {

constexpr std::size_t kMaxWordLength = 256;

// Letters, digits and the separators of IDs, UUIDs, PCI addresses and job numbers.
bool is_word(std::string_view text) {
  constexpr std::string_view kJoins = "-_.:/+";
  const auto fits = [&](char c) { return is_alphanumeric(c) || kJoins.find(c) != kJoins.npos; };
  return text.size() <= kMaxWordLength && !text.starts_with('-') && std::ranges::all_of(text, fits);
}

// "2026-01-31T12:00:01.250Z", with any number of decimals, or with an offset for the Z.
bool is_timestamp(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  const auto starts_as = [](std::string_view given, std::string_view form) {
    return given.size() >= form.size() &&
           std::ranges::equal(given.substr(0, form.size()), form, [](char c, char wanted) {
             return wanted == '0' ? is_digit(c) : c == wanted;
           });
  };
  if (!starts_as(text, kForm)) return false;
  text.remove_prefix(kForm.size());
  if (text.starts_with('.')) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", 1), text.size());
    if (end == 1) return false;
    text.remove_prefix(end);
  }
  const bool offset = starts_as(text, "+00:00") || starts_as(text, "-00:00");
  return text == "Z" || (offset && text.size() == std::string_view("+00:00").size());
}

constexpr std::array<std::string_view, 14> kWordFields = {
    "id",         "uuid",     "lease",  "pci_address", "operation", "job",   "slurm_job",
    "slurm_step", "instance", "window", "silence",     "device",    "epoch", "last_event_id"};
constexpr std::array<std::string_view, 25> kTimeFields = {
    "at",         "since",    "until",         "fired",        "resolved",
    "asked",      "granted",  "ended",         "expires",      "made",
    "last_used",  "in_clear", "revoked",       "taken_at",     "asked_at",
    "began_at",   "ends_at",  "began",         "first_seen",   "last_seen",
    "started_at", "ended_at", "failing_since", "covers_since", "started"};

// An empty text means that there is no value.
bool is_well_formed(std::string_view name, std::string_view text) {
  if (text.empty()) return true;
  if (std::ranges::find(kWordFields, name) != kWordFields.end()) return is_word(text);
  return std::ranges::find(kTimeFields, name) == kTimeFields.end() || is_timestamp(text);
}

// Walks an answer; the parser has bounded its depth.
class MalformedFilter {
 public:
  std::size_t dropped = 0;
  std::string fault;  // path of the last malformed field, within what filter() was called for

  // Returns whether the value may stay.
  bool filter(boost::json::value& value) {
    if (auto* list = value.if_array()) {
      auto end = std::remove_if(list->begin(), list->end(), [&](boost::json::value& entry) {
        const bool drops = !filter(entry);
        dropped += drops ? 1 : 0;
        return drops;
      });
      list->erase(end, list->end());
      return true;
    }
    auto* object = value.if_object();
    if (object == nullptr) return true;
    return std::ranges::all_of(*object, [&](auto& field) {
      const std::string_view name = field.key();
      // Its fields have the names of readings.
      if (name == "missing") return true;
      const auto* text = field.value().if_string();
      if (text != nullptr ? is_well_formed(name, *text) : filter(field.value())) return true;
      fault = "/" + std::string(name) + (text != nullptr ? "" : fault);
      return false;
    });
  }
};

// Warns once: a client that polls would otherwise repeat the line with each answer.
void log_dropped(std::string_view source, std::size_t count) {
  static std::atomic<bool> warned = false;
  if (warned.exchange(true)) return;
  log::warning(
      "omitted {} malformed {} from a response of {}: an ID, a UUID or a time is not in gpuyard's "
      "format",
      count, count == 1 ? "entry" : "entries", source);
}

}  // namespace

Result<std::size_t> drop_malformed(boost::json::value& answer) {
  MalformedFilter sieve;
  if (sieve.filter(answer)) return sieve.dropped;
  return Error{Errc::internal, sieve.fault + ": malformed ID, UUID or time"};
}

Result<void> read_reply(std::string_view source, std::string_view text, const json::Shape& shape,
                        void* to) {
  const auto wrong = [&](const Error& error) {
    return Error{Errc::internal, fmt::format("invalid response from {}: {}", source, error.text())};
  };
  auto document = json::parse(text);
  if (!document) return wrong(document.error());
  const auto dropped = drop_malformed(*document);
  if (!dropped) return wrong(dropped.error());
  if (*dropped > 0) log_dropped(source, *dropped);
  const auto read = json::read(*document, shape, to, json::UnknownFields::ignore);
  return read ? Result<void>() : wrong(read.error());
}

}  // namespace gpuyard::client
