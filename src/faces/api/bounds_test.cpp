// The bounds of request fields: described for every field, and checked as described.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/json_writer.h"
#include "base/text.h"
#include "faces/api/examples.h"
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

namespace bj = boost::json;
using testing::HasSubstr;

bool is_of(const bj::object& schema, std::string_view type) {
  const bj::value wanted(type);
  const bj::value& types = schema.at("type");
  if (const auto* all = types.if_array()) return std::ranges::count(*all, wanted) > 0;
  return types == wanted;
}

bool is_number(const bj::object& schema) {
  return is_of(schema, "integer") || is_of(schema, "number");
}

// Returns the bounds that a schema lacks, by their names in JSON Schema.
std::vector<std::string> missing_bounds(const bj::object& schema) {
  std::vector<std::string> missing;
  const auto need = [&](const char* name) {
    if (!schema.contains(name)) missing.emplace_back(name);
  };
  if (is_number(schema)) {
    need("minimum");
    need("maximum");
  }
  if (is_of(schema, "string") && !schema.contains("enum")) need("maxLength");
  if (is_of(schema, "array")) {
    need("maxItems");
    for (auto& one : missing_bounds(schema.at("items").as_object())) missing.push_back(one);
  }
  return missing;
}

bj::object fields_of(const json::Shape& shape) {
  return json::schema(shape, json::SchemaUse::request).at("properties").as_object();
}

// Values just beyond the bounds that a schema names.
std::vector<bj::value> beyond(const bj::object& schema) {
  std::vector<bj::value> values;
  const auto bound = [&](const char* name) {
    const auto* found = schema.if_contains(name);
    return found ? std::optional(found->to_number<double>()) : std::nullopt;
  };
  const double step = is_of(schema, "number") ? 1e-4 : 1;
  if (is_number(schema) && !is_of(schema, "string")) {
    if (const auto least = bound("minimum")) {
      const double value = *least - step;
      values.push_back(is_of(schema, "number") ? bj::value(value)
                                               : bj::value(static_cast<std::int64_t>(value)));
    }
    if (const auto most = bound("maximum")) {
      const double value = *most + 1;
      values.push_back(is_of(schema, "number") ? bj::value(value)
                                               : bj::value(static_cast<std::int64_t>(value)));
      if (is_of(schema, "number")) values.emplace_back(1e308);
    }
  } else if (is_of(schema, "string")) {
    if (const auto least = bound("minLength")) {
      values.emplace_back(std::string(static_cast<std::size_t>(*least) - 1, 'x'));
    }
    if (const auto most = bound("maxLength")) {
      values.emplace_back(std::string(static_cast<std::size_t>(*most) + 1, 'x'));
    }
  } else if (is_of(schema, "array")) {
    for (const auto& [name, more] : {std::pair("minItems", -1), std::pair("maxItems", 1)}) {
      if (const auto length = bound(name)) {
        values.emplace_back(bj::array(static_cast<std::size_t>(*length + more), bj::value(0)));
      }
    }
    for (const bj::value& entry : beyond(schema.at("items").as_object())) {
      values.emplace_back(bj::array{entry});
    }
  }
  return values;
}

TEST(DescribedBounds, ExistForEveryFieldOfABody) {
  for (const BoundRoute& route : all_routes()) {
    if (route.body == nullptr) continue;
    for (const auto& field : fields_of(*route.body)) {
      EXPECT_THAT(missing_bounds(field.value().as_object()), testing::IsEmpty())
          << route.info.method << " " << route.info.pattern << ": " << field.key();
    }
  }
}

TEST(DescribedBounds, ExistForEveryNumberOfAQuery) {
  for (const BoundRoute& route : all_routes()) {
    for (const auto& field : fields_of(*route.parameters)) {
      const auto& schema = field.value().as_object();
      if (!is_number(schema)) continue;
      EXPECT_THAT(missing_bounds(schema), testing::IsEmpty())
          << route.info.method << " " << route.info.pattern << ": " << field.key();
    }
  }
}

class Bounds : public LeaseRoutes {
 protected:
  static http::Method method_of(std::string_view name) {
    return name == "PUT" ? http::Method::put : http::Method::post;
  }
  static std::string path_of(std::string_view pattern) {
    std::string path;
    while (!pattern.empty()) {
      path += take_until('{', pattern);
      if (!take_until('}', pattern).empty()) path += '1';
    }
    return path;
  }

  const Examples examples_;
};

TEST_F(Bounds, AreCheckedForEveryBody) {
  std::size_t refused = 0;
  for (const BoundRoute& route : all_routes()) {
    if (route.body == nullptr) continue;
    const bj::object& good = examples_.record(route.body->title)->as_object();
    for (const auto& field : fields_of(*route.body)) {
      for (const bj::value& value : beyond(field.value().as_object())) {
        bj::object body = good;
        body[field.key()] = value;
        const auto answer = ask(method_of(route.info.method), path_of(route.info.pattern),
                                bj::serialize(body), local_user(0));
        ASSERT_EQ(answer->status(), 400) << route.info.pattern << ": " << bj::serialize(body);
        EXPECT_THAT(answer->message(),
                    HasSubstr(fmt::format("body: /{}", std::string_view(field.key()))));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 80U);
}

}  // namespace
}  // namespace gpuyard::api
