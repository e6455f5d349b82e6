#include "io/http/content_coding.h"

#include <gtest/gtest.h>

namespace gpuyard::http {
namespace {

bool accepted(const char* field) {
  return accepts_gzip({{"Host", "gzip"}, {"accept-encoding", field}});
}

TEST(AcceptsGzip, QualityAtLeastIdentityIsAccepted) {
  for (const char* field :
       {"gzip", "GZIP", "x-gzip", "deflate, gzip;q=1.0, *;q=0.5", "br,gzip", "gzip ; q=0.5", "*",
        "gzip;q=0.001", "identity;q=0.5, gzip;q=0.5", "*;q=0, gzip", "gzip;level=9;q=1"}) {
    EXPECT_TRUE(accepted(field)) << field;
  }
  EXPECT_TRUE(accepts_gzip({{"Accept-Encoding", "br"}, {"Accept-Encoding", "gzip"}}));
}

TEST(AcceptsGzip, NotWhenItIsRefusedUnnamedOrMisspelt) {
  for (const char* field :
       {"", "br", "identity", "gzip;q=0", "gzip; q=0.000", "*;q=0", "gzip;q=0, *",
        "identity, gzip;q=0.5", "gzip;q=2", "gzip;q=-1", "gzip;q=0.0001", "gzip;q=", "gzip;q=x",
        "gzip;q=0x1", "gzippy", "sgzip", ",,;,", "=;=", "\tgz ip"}) {
    EXPECT_FALSE(accepted(field)) << field;
  }
  EXPECT_FALSE(accepts_gzip({}));
}

TEST(MatchesEtag, ComparesWholeTagsWeakOrNot) {
  EXPECT_TRUE(matches_etag("\"a1\"", "\"a1\""));
  EXPECT_TRUE(matches_etag("\"b\", W/\"a1\"", "\"a1\""));
  EXPECT_TRUE(matches_etag("\"a1\"", "W/\"a1\""));
  EXPECT_TRUE(matches_etag(" * ", "\"a1\""));
  EXPECT_FALSE(matches_etag("\"a\"", "\"a1\""));
  EXPECT_FALSE(matches_etag("a1", "\"a1\""));
  EXPECT_FALSE(matches_etag("*", ""));
  EXPECT_FALSE(matches_etag("", "\"a1\""));
}

TEST(GzipCache, SharedBodyIsCompressedOnceUntilReleased) {
  GzipCache cache;
  auto body = std::make_shared<const std::string>("shared");
  const auto another_holder = body;
  const auto packed = cache.compress(body);
  EXPECT_EQ(gunzip(*packed, 100), "shared");
  EXPECT_EQ(cache.compress(body), packed);
  const std::weak_ptr<const std::string> watch = body;
  body.reset();
  const_cast<std::shared_ptr<const std::string>&>(another_holder).reset();
  EXPECT_TRUE(watch.expired());
}

TEST(GzipCache, KeepsNoBodyThatOnlyOneResponseHas) {
  GzipCache cache;
  const auto body = std::make_shared<const std::string>("own");
  const std::weak_ptr<const std::string> packed = cache.compress(body);
  EXPECT_TRUE(packed.expired());
}

class ApplyPreferences : public testing::Test {
 protected:
  Response fit(const ResponsePreferences& preferences) {
    Response response = response_;
    apply_preferences(preferences, response, cache_, Limits());
    return response;
  }
  static std::string field(const Response& response, std::string_view name) {
    return std::string(find_header(response.headers, name));
  }

  GzipCache cache_;
  Response response_{200, "application/json", std::string(5000, 'x')};
};

TEST_F(ApplyPreferences, OpenMetricsAreAText) {
  response_.content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
  EXPECT_EQ(field(fit({.gzip = true}), "Content-Encoding"), "gzip");
}

TEST_F(ApplyPreferences, AcceptedGzipCompressesLargeText) {
  const Response packed = fit({.gzip = true});
  EXPECT_EQ(field(packed, "Content-Encoding"), "gzip");
  EXPECT_EQ(field(packed, "Vary"), "Accept-Encoding");
  EXPECT_EQ(gunzip(*packed.body, 10'000), *response_.body);
  const Response plain = fit({.gzip = false});
  EXPECT_EQ(field(plain, "Content-Encoding"), "");
  EXPECT_EQ(field(plain, "Vary"), "Accept-Encoding");  // for the caches in between
  EXPECT_EQ(plain.body, response_.body);
}

TEST_F(ApplyPreferences, ASmallBodyOrAnImageStaysAsItIs) {
  response_ = Response(200, "text/plain", std::string(Limits().gzip_from_bytes - 1, 'x'));
  EXPECT_TRUE(fit({.gzip = true}).headers.empty());
  response_ = Response(200, "image/png", std::string(5000, 'x'));
  EXPECT_TRUE(fit({.gzip = true}).headers.empty());
  response_ = Response();
  EXPECT_TRUE(fit({.gzip = true}).headers.empty());
}

TEST_F(ApplyPreferences, PackedBodyIsUnpackedWithoutGzipSupport) {
  response_ = Response(200, "text/css", gzip("plain"));
  response_.gzipped = true;
  EXPECT_EQ(*fit({.gzip = false}).body, "plain");
  const Response packed = fit({.gzip = true});
  EXPECT_EQ(packed.body, response_.body);
  EXPECT_EQ(field(packed, "Content-Encoding"), "gzip");
}

TEST_F(ApplyPreferences, MatchingEtagReturns304OnlyForSuccessfulReads) {
  response_.etag = "\"a1\"";
  const Response known = fit({.gzip = true, .is_read = true, .if_none_match = "\"a1\""});
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.body, nullptr);
  EXPECT_EQ(field(known, "ETag"), "\"a1\"");
  EXPECT_EQ(field(known, "Vary"), "Accept-Encoding");
  EXPECT_EQ(fit({.is_read = true, .if_none_match = "\"b\""}).status, 200);
  EXPECT_EQ(fit({.is_read = false, .if_none_match = "*"}).status, 200);
  response_.status = 404;
  EXPECT_EQ(fit({.is_read = true, .if_none_match = "*"}).status, 404);
}

}  // namespace

namespace {

constexpr std::size_t kLargeLimit = 1 << 20;

TEST(Gzip, ComesBackAsItWas) {
  for (const std::string& plain : {std::string(), std::string("x"), std::string(300'000, 'y')}) {
    EXPECT_EQ(gunzip(gzip(plain), kLargeLimit), plain);
  }
  EXPECT_LT(gzip(std::string(300'000, 'y')).size(), 3000U);
}

TEST(Gzip, HasTheFrameThatBrowsersKnow) {
  EXPECT_EQ(gzip("x").substr(0, 3), "\x1f\x8b\x08");
}

TEST(Gunzip, TruncatedCorruptOrNonGzipInputIsRefused) {
  const std::string packed = gzip(std::string(5000, 'x') + "end");
  EXPECT_FALSE(gunzip(packed.substr(0, packed.size() - 1), kLargeLimit));
  std::string changed = packed;
  changed[packed.size() - 6] ^= 1;  // in the checksum
  EXPECT_FALSE(gunzip(changed, kLargeLimit));
  EXPECT_FALSE(gunzip("no gzip", kLargeLimit));
  EXPECT_FALSE(gunzip("", kLargeLimit));
}

TEST(Gunzip, StopsAtItsLimit) {
  const std::string packed = gzip(std::string(10'000, 'x'));
  EXPECT_FALSE(gunzip(packed, 9'999));
  EXPECT_TRUE(gunzip(packed, 10'000));
}

}  // namespace
}  // namespace gpuyard::http
