#include "io/http/content_coding.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <optional>

#include "base/text.h"

namespace gpuyard::http {
namespace {

constexpr int kFullWeight = 1000;  // a weight of 1, in thousandths

// "0.5" is 500; "1", "0.123" and nothing finer or greater.
std::optional<int> weight_from(std::string_view text) {
  constexpr std::size_t kMaxLength = 5;
  const bool shaped = !text.empty() && text.size() <= kMaxLength &&
                      (text[0] == '0' || text[0] == '1') && (text.size() == 1 || text[1] == '.');
  if (!shaped) return std::nullopt;
  int weight = (text[0] - '0') * kFullWeight;
  int digit_weight = kFullWeight / 10;
  for (const char c : text.substr(std::min<std::size_t>(2, text.size()))) {
    if (c < '0' || c > '9') return std::nullopt;
    weight += (c - '0') * digit_weight;
    digit_weight /= 10;
  }
  return weight <= kFullWeight ? std::optional(weight) : std::nullopt;
}

struct Coding {
  std::string_view name;
  int weight = kFullWeight;
};

// "gzip;q=0.8"; empty if the weight is not one.
std::optional<Coding> coding_from(std::string_view element) {
  Coding coding{trim(take_until(';', element))};
  while (!element.empty()) {
    std::string_view parameter = take_until(';', element);
    if (!equals_ignoring_case(trim(take_until('=', parameter)), "q")) continue;
    const auto weight = weight_from(trim(parameter));
    if (!weight) return std::nullopt;
    coding.weight = *weight;
  }
  return coding;
}

bool is_compressible(const Response& response, const Limits& limits) {
  const std::string_view type = response.content_type;
  const bool text = type.starts_with("text/") || type.starts_with("application/json") ||
                    type.starts_with("application/openmetrics-text");
  return text && response.body && response.body->size() >= limits.gzip_from_bytes;
}

void set_not_modified(Response& response) {
  response.status = 304;
  response.body = nullptr;
  response.content_type.clear();
}

// The most bytes of an unpacked body. Only our own bodies come packed, so none is a trap, and this
// is more than any of them needs.
constexpr std::size_t kMaxDecompressedBytes = std::size_t{16} * 1024 * 1024;

void decompress_body(Response& response, GzipCache& cache) {
  response.body = cache.decompress(response.body);
  if (!response.body) {
    response = error_response(500, "internal", "a compressed body cannot be decompressed");
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

bool matches_etag(std::string_view if_none_match, std::string_view etag) {
  if (etag.empty()) return false;
  if (trim(if_none_match) == "*") return true;
  if (etag.starts_with("W/")) etag.remove_prefix(2);      // weak or not is the same here
  return if_none_match.find(etag) != if_none_match.npos;  // the quotes make it whole
}

GzipCache::Body GzipCache::find(const Results& results, const Body& source) {
  const auto same = std::ranges::find_if(results.entries, [&](const Entry& entry) {
    return entry.result && entry.source.lock() == source;
  });
  return same == results.entries.end() ? nullptr : same->result;
}

void GzipCache::insert(Results& results, const Body& source, const Body& body) {
  if (source.use_count() == 1) return;  // nobody else has it
  results.entries[results.next] = {source, body};
  results.next = (results.next + 1) % kMaxEntries;
}

GzipCache::Body GzipCache::compress(const Body& plain) {
  if (auto body = find(compressed_, plain)) return body;
  auto body = std::make_shared<const std::string>(gzip(*plain));
  insert(compressed_, plain, body);
  return body;
}

GzipCache::Body GzipCache::decompress(const Body& packed) {
  if (auto body = find(decompressed_, packed)) return body;
  auto plain = gunzip(*packed, kMaxDecompressedBytes);
  if (!plain) return nullptr;
  auto body = std::make_shared<const std::string>(*std::move(plain));
  insert(decompressed_, packed, body);
  return body;
}

ResponsePreferences preferences_of(const Request& request) {
  const bool reads = request.method == Method::get || request.method == Method::head;
  return {accepts_gzip(request.headers), reads, std::string(request.header("if-none-match"))};
}

void apply_preferences(const ResponsePreferences& preferences, Response& response, GzipCache& cache,
                       const Limits& limits) {
  if (!response.etag.empty()) response.headers.push_back({"ETag", response.etag});
  const bool choice = response.gzipped || is_compressible(response, limits);
  if (choice) response.headers.push_back({"Vary", "Accept-Encoding"});
  if (response.status == 200 && preferences.is_read &&
      matches_etag(preferences.if_none_match, response.etag)) {
    return set_not_modified(response);
  }
  if (!choice) return;
  if (!preferences.gzip) {
    if (response.gzipped) decompress_body(response, cache);
    return;
  }
  if (!response.gzipped) response.body = cache.compress(response.body);
  response.headers.push_back({"Content-Encoding", "gzip"});
}

// The only file that includes zlib.
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // zlib's word for its largest window in gzip's frame
// On the io thread time counts more than the last bytes: level 6 takes three times as long for a
// body smaller by a fifth.
constexpr int kCompressionLevel = Z_BEST_SPEED;
constexpr int kMemoryLevel = 8;  // zlib's default

Bytef* bytes_of(std::string_view text) {
  // zlib does not write through next_in; without ZLIB_CONST it does not say so.
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

std::string gzip(std::string_view plain) {
  z_stream stream{};
  if (::deflateInit2(&stream, kCompressionLevel, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();  // the only way in which right arguments fail
  }
  std::string packed(::deflateBound(&stream, plain.size()), '\0');
  stream.next_in = bytes_of(plain);
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = bytes_of(packed);
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);  // the bound is enough for all of it
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

std::optional<std::string> gunzip(std::string_view packed, std::size_t at_most) {
  z_stream stream{};
  if (::inflateInit2(&stream, kGzipWindowBits) != Z_OK) throw std::bad_alloc();
  stream.next_in = bytes_of(packed);
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string plain;
  int state = Z_OK;
  while (state == Z_OK && plain.size() < at_most) {
    constexpr std::size_t kInitialSize = 4096;
    plain.resize(std::min(at_most, std::max(kInitialSize, plain.size() * 2)));
    stream.next_out = bytes_of(plain) + stream.total_out;
    stream.avail_out = static_cast<uInt>(plain.size() - stream.total_out);
    state = ::inflate(&stream, Z_NO_FLUSH);
  }
  plain.resize(stream.total_out);
  ::inflateEnd(&stream);
  if (state != Z_STREAM_END) return std::nullopt;
  return plain;
}

}  // namespace gpuyard::http
