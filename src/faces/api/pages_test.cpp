// The files of the pages.
#include "faces/api/assets.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "io/http/message.h"

namespace gpuyard::api {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::array kFiles = {Asset{"docs.html", "text/html", "\"1\"", "packed"}};
const Assets kAvailableAssets{kFiles, ""};
const Assets kMissingAssets{{}, "npm is not installed"};

TEST(Docs, FileHasGzipEtagAndStrictPolicy) {
  const http::Response response = docs_response(kAvailableAssets, kDocsPage);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "text/html");
  EXPECT_EQ(*response.body, "packed");
  EXPECT_TRUE(response.gzipped);
  EXPECT_EQ(response.etag, "\"1\"");
  EXPECT_EQ(find_header(response.headers, "Cache-Control"), "no-cache");
  const auto policy = std::string(find_header(response.headers, "Content-Security-Policy"));
  EXPECT_THAT(policy, HasSubstr("default-src 'none'; script-src 'self';"));
  EXPECT_THAT(policy, Not(HasSubstr("http")));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe-eval")));
}

TEST(Docs, AFileThatIsNotThereIs404) {
  EXPECT_EQ(docs_response(kAvailableAssets, "swagger-ui.css.map").status, 404);
  EXPECT_EQ(docs_response(kAvailableAssets, "").status, 404);
}

TEST(Docs, MissingFilesReturn503WithReason) {
  for (const std::string_view name : {kDocsPage, std::string_view("swagger-ui.css")}) {
    const http::Response response = docs_response(kMissingAssets, name);
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
    EXPECT_FALSE(response.gzipped);
    EXPECT_THAT(*response.body, HasSubstr("npm is not installed"));
    EXPECT_THAT(*response.body, HasSubstr("openapi.json"));
  }
}

TEST(Docs, PageIsCompleteOrSaysWhyNot) {
  const Assets& built = docs_assets();
  EXPECT_EQ(built.files.empty(), !built.why_missing.empty());
  if (built.files.empty()) return;
  for (const char* name : {"docs.html", "docs.js", "swagger-ui.css", "swagger-ui-bundle.js",
                           "favicon-32x32.png", "licences.txt"}) {
    EXPECT_EQ(docs_response(built, name).status, 200) << name;
  }
  for (const char* name : {"page.js", "page.css", "icon.svg", "licences.txt"}) {
    EXPECT_NE(std::ranges::find(page_assets().files, name, &Asset::name),
              page_assets().files.end());
  }
  for (const Asset& file : built.files) EXPECT_TRUE(file.gzipped.starts_with("\x1f\x8b"));
}

}  // namespace
}  // namespace gpuyard::api
