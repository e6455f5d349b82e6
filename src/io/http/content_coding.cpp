#include "http/content_coding.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "http/gzip.h"

namespace gpuyard::http {
namespace {

constexpr int kFull = 1000;  // a weight of 1, in thousandths

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view take_until(char separator, std::string_view& rest) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trimmed(taken);
}

// "0.5" is 500; "1", "0.123" and nothing finer or greater.
std::optional<int> weight_from(std::string_view text) {
  constexpr std::size_t kLongest = 5;
  const bool shaped = !text.empty() && text.size() <= kLongest &&
                      (text[0] == '0' || text[0] == '1') && (text.size() == 1 || text[1] == '.');
  if (!shaped) return std::nullopt;
  int weight = (text[0] - '0') * kFull;
  int place = kFull / 10;
  for (const char c : text.substr(std::min<std::size_t>(2, text.size()))) {
    if (c < '0' || c > '9') return std::nullopt;
    weight += (c - '0') * place;
    place /= 10;
  }
  return weight <= kFull ? std::optional(weight) : std::nullopt;
}

struct Coding {
  std::string_view name;
  int weight = kFull;
};

// "gzip;q=0.8"; empty if the weight is not one.
std::optional<Coding> coding_from(std::string_view element) {
  Coding coding{take_until(';', element)};
  while (!element.empty()) {
    std::string_view parameter = take_until(';', element);
    if (!equals_ignoring_case(take_until('=', parameter), "q")) continue;
    const auto weight = weight_from(trimmed(parameter));
    if (!weight) return std::nullopt;
    coding.weight = *weight;
  }
  return coding;
}

bool compressible(const Response& response, const Limits& limits) {
  const std::string_view type = response.content_type;
  const bool text = type.starts_with("text/") || type.starts_with("application/json") ||
                    type.starts_with("application/openmetrics-text");
  return text && response.body && response.body->size() >= limits.gzip_from_bytes;
}

void not_modified(Response& response) {
  response.status = 304;
  response.body = nullptr;
  response.content_type.clear();
}

// Only our own bodies come packed, so none is a trap, and this is more than any of them needs.
constexpr std::size_t kMostUnpacked = std::size_t{16} * 1024 * 1024;

void unpack(Response& response, GzipCache& cache) {
  response.body = cache.unpacked(response.body);
  if (!response.body) {
    response = error_response(500, "internal", "a packed body cannot be unpacked");
  }
}

}  // namespace

bool accepts_gzip(const std::vector<Header>& headers) {
  std::optional<int> gzip;
  std::optional<int> anything;
  int plain = 0;  // not named, it is allowed but not preferred
  for (const Header& header : headers) {
    if (!equals_ignoring_case(header.name, "accept-encoding")) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const auto coding = coding_from(take_until(',', rest));
      if (!coding) continue;
      if (equals_ignoring_case(coding->name, "gzip") ||
          equals_ignoring_case(coding->name, "x-gzip")) {
        gzip = coding->weight;
      } else if (coding->name == "*") {
        anything = coding->weight;
      } else if (equals_ignoring_case(coding->name, "identity")) {
        plain = coding->weight;
      }
    }
  }
  const int wanted = gzip.value_or(anything.value_or(0));
  return wanted > 0 && wanted >= plain;
}

bool names_etag(std::string_view if_none_match, std::string_view etag) {
  if (etag.empty()) return false;
  if (trimmed(if_none_match) == "*") return true;
  if (etag.starts_with("W/")) etag.remove_prefix(2);      // weak or not is the same here
  return if_none_match.find(etag) != if_none_match.npos;  // the quotes make it whole
}

GzipCache::Body GzipCache::known(const Made& made, const Body& of) {
  const auto same = std::ranges::find_if(
      made.entries, [&](const Entry& entry) { return entry.made && entry.of.lock() == of; });
  return same == made.entries.end() ? nullptr : same->made;
}

void GzipCache::keep(Made& made, const Body& of, const Body& body) {
  if (of.use_count() == 1) return;  // nobody else has it
  made.entries[made.next] = {of, body};
  made.next = (made.next + 1) % kEntries;
}

GzipCache::Body GzipCache::packed(const Body& plain) {
  if (auto body = known(packed_, plain)) return body;
  auto body = std::make_shared<const std::string>(gzip(*plain));
  keep(packed_, plain, body);
  return body;
}

GzipCache::Body GzipCache::unpacked(const Body& packed) {
  if (auto body = known(unpacked_, packed)) return body;
  auto plain = gunzip(*packed, kMostUnpacked);
  if (!plain) return nullptr;
  auto body = std::make_shared<const std::string>(*std::move(plain));
  keep(unpacked_, packed, body);
  return body;
}

Wishes wishes_of(const Request& request) {
  const bool reads = request.method == Method::get || request.method == Method::head;
  return {accepts_gzip(request.headers), reads, std::string(request.header("if-none-match"))};
}

void fit_to(const Wishes& wishes, Response& response, GzipCache& cache, const Limits& limits) {
  if (!response.etag.empty()) response.headers.push_back({"ETag", response.etag});
  const bool choice = response.gzipped || compressible(response, limits);
  if (choice) response.headers.push_back({"Vary", "Accept-Encoding"});
  if (response.status == 200 && wishes.reads && names_etag(wishes.if_none_match, response.etag)) {
    return not_modified(response);
  }
  if (!choice) return;
  if (!wishes.gzip) {
    if (response.gzipped) unpack(response, cache);
    return;
  }
  if (!response.gzipped) response.body = cache.packed(response.body);
  response.headers.push_back({"Content-Encoding", "gzip"});
}

}  // namespace gpuyard::http
