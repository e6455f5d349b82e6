#include "faces/api/examples.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/text.h"
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

namespace bj = boost::json;

// Checks a JSON value against a JSON Schema, as far as our schemas go.
class SchemaCheck {
 public:
  // `document` is the target of "$ref"; it outlives this.
  explicit SchemaCheck(const boost::json::value& document) : document_(document) {}

  // Returns what is wrong, each problem with its path; empty if the value fits.
  std::vector<std::string> problems(const boost::json::value& value,
                                    const boost::json::value& schema) {
    found_.clear();
    check(value, schema, "");
    return found_;
  }

 private:
  static bool is(const boost::json::value& value, std::string_view type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_bool();
    if (type == "null") return value.is_null();
    if (type == "integer") return value.is_int64() || value.is_uint64();
    return type == "number" && value.is_number();
  }

  void check(const boost::json::value& value, const boost::json::value& any,
             const std::string& at) {
    const auto& schema = any.as_object();
    if (const auto* ref = schema.if_contains("$ref")) {
      const std::string_view pointer = ref->as_string();
      return check(value, document_.at_pointer(pointer.substr(1)), at);
    }
    if (const auto* type = schema.if_contains("type")) check_type(value, *type, at);
    if (const auto* names = schema.if_contains("enum")) {
      const auto& all = names->as_array();
      if (std::find(all.begin(), all.end(), value) == all.end())
        found_.push_back(at + ": not listed");
    }
    if (value.is_object()) check_object(value.as_object(), schema, at);
    if (value.is_array()) {
      for (const auto& element : value.as_array()) check(element, schema.at("items"), at + "/-");
    }
  }

  void check_type(const boost::json::value& value, const boost::json::value& type,
                  const std::string& at) {
    bool fits = type.is_string() && is(value, type.as_string());
    if (const auto* types = type.if_array()) {
      for (const auto& one : *types) fits = fits || is(value, one.as_string());
    }
    if (!fits) found_.push_back(at + ": is not of type " + boost::json::serialize(type));
  }

  void check_object(const boost::json::object& value, const boost::json::object& schema,
                    const std::string& at) {
    if (const auto* required = schema.if_contains("required")) {
      for (const auto& name : required->as_array()) {
        if (!value.contains(name.as_string()))
          found_.push_back(at + "/" + std::string(name.as_string()) + ": required");
      }
    }
    for (const auto& member : value) {
      const std::string path = at + "/" + std::string(member.key());
      const auto* properties = schema.if_contains("properties");
      const auto* known = properties ? properties->as_object().if_contains(member.key()) : nullptr;
      if (known == nullptr) known = schema.if_contains("additionalProperties");
      if (known == nullptr) {
        found_.push_back(path + ": not in the schema");
      } else {
        check(member.value(), *known, path);
      }
    }
  }

  const boost::json::value& document_;
  std::vector<std::string> found_;
};

using testing::IsEmpty;

class Description : public Routes {
 protected:
  Description() {
    const BoundRoute route = openapi_routes().front();
    route.call(context_, route.info, {}, http::Reply([this](const http::Response& response) {
                 document_ = bj::parse(*response.body);
               }));
  }
  const bj::value& responses_of(const BoundRoute& route) {
    const auto& path = document_.at("paths").at(route.info.pattern);
    return path.at(to_lower(route.info.method)).at("responses");
  }

  bj::value document_;
  const Examples examples_;
};

TEST_F(Description, EveryAnswerExampleDecodesAsItsType) {
  RecordProperty("contract", "E12");
  for (const BoundRoute& route : all_routes()) {
    if (route.answer == nullptr) continue;
    const bj::value* const example = examples_.record(route.answer->title);
    ASSERT_NE(example, nullptr) << route.info.pattern << " has no example";
    const auto decoded = route.decode(bj::serialize(*example));
    EXPECT_TRUE(decoded) << route.info.pattern << ": " << decoded.error().message;
  }
}

TEST_F(Description, EveryParameterHasScalarType) {
  for (const BoundRoute& route : all_routes()) {
    for (const json::Field& field : route.parameters->fields) {
      const bool optional = field.shape->kind == json::Kind::optional;
      const json::Kind kind = optional ? field.shape->inner->kind : field.shape->kind;
      EXPECT_TRUE(kind <= json::Kind::word) << route.info.pattern << ": " << field.name;
    }
  }
}

TEST_F(Description, TheExampleOfAStreamIsOne) {
  std::string_view stream = examples_.text(protocol::kEvents);
  EXPECT_TRUE(stream.ends_with("\n\n"));
  const auto data_of = [&](std::string_view name) {
    const std::string begin = "event: " + std::string(name) + "\ndata: ";
    const std::size_t at = stream.find(begin);
    EXPECT_NE(at, stream.npos) << name;
    stream.remove_prefix(at + begin.size());
    return std::string(stream.substr(0, stream.find('\n')));
  };
  const auto resync = json::from_json<protocol::SummaryResync>(data_of(protocol::kResyncEvent));
  EXPECT_TRUE(resync) << resync.error().message;
  const auto event = json::from_json<protocol::GpuEvent>(data_of(protocol::kDeviceEvent));
  EXPECT_TRUE(event) << event.error().message;
}

TEST_F(Description, LastEventIdIsHeaderField) {
  const auto& parameters = document_.at("paths").at("/api/gpu/events").at("get").at("parameters");
  std::vector<std::string> found;
  for (const auto& one : parameters.as_array()) {
    found.push_back(std::string(one.at("in").as_string()) + " " +
                    std::string(one.at("name").as_string()));
  }
  EXPECT_THAT(found, testing::ElementsAre("query samples", "query gpus", "query since",
                                          "query follow", "header Last-Event-ID"));
}

TEST_F(Description, EveryExampleFitsItsSchema) {
  RecordProperty("contract", "E12");
  SchemaCheck schemas(document_);
  std::size_t checked = 0;
  for (const BoundRoute& route : all_routes()) {
    for (const auto& response : responses_of(route).as_object()) {
      for (const auto& content : response.value().at("content").as_object()) {
        const auto* example = content.value().as_object().if_contains("example");
        if (example == nullptr) continue;
        ++checked;
        EXPECT_THAT(schemas.problems(*example, content.value().at("schema")), IsEmpty())
            << route.info.pattern << " " << response.key();
      }
    }
  }
  EXPECT_GT(checked, all_routes().size());
}

TEST_F(Description, EveryBodyExampleFitsItsSchema) {
  RecordProperty("contract", "E12");
  SchemaCheck schemas(document_);
  std::size_t checked = 0;
  for (const BoundRoute& route : all_routes()) {
    const auto& operation =
        document_.at("paths").at(route.info.pattern).at(to_lower(route.info.method)).as_object();
    EXPECT_EQ(operation.contains("requestBody"), route.body != nullptr);
    if (route.body == nullptr) continue;
    ++checked;
    const auto& media = operation.at("requestBody").at("content").at("application/json");
    EXPECT_THAT(schemas.problems(media.at("example"), media.at("schema")), IsEmpty())
        << route.info.pattern;
  }
  EXPECT_GT(checked, 0U);
}

TEST_F(Description, EveryRouteSaysHowItFails) {
  RecordProperty("contract", "E12");
  for (const BoundRoute& route : all_routes()) {
    const auto& responses = responses_of(route).as_object();
    for (const std::string& status :
         {std::to_string(route.info.status), std::string("400"), std::string("default")}) {
      EXPECT_TRUE(responses.contains(status)) << route.info.pattern << " " << status;
    }
    const bool names_something =
        route.info.pattern.find('{') != std::string_view::npos ||
        (route.body != nullptr && route.info.pattern != protocol::kCheckSlurm.pattern &&
         route.info.pattern != protocol::kReportDevicePlugin.pattern) ||
        route.info.pattern == protocol::kEvents.pattern ||
        route.info.pattern == protocol::kHistoryColumns.pattern ||
        route.info.pattern == protocol::kProcessSpans.pattern ||
        route.info.pattern == protocol::kBottlenecks.pattern ||
        route.info.pattern == protocol::kPowerStream.pattern ||
        route.info.pattern == protocol::kAudit.pattern ||
        route.info.pattern == protocol::kAlertHistory.pattern;
    EXPECT_EQ(responses.contains("404"), names_something) << route.info.pattern;
    EXPECT_EQ(responses.contains("403"), route.info.scope > protocol::Scope::open);
  }
  EXPECT_EQ(document_.at_pointer("/paths/~1api~1gpu~1driver/get/responses/503/content/"
                                 "application~1json/example/detail"),
            "NVML Shared Library Not Found");
}

TEST_F(Description, EveryTagIsExplained) {
  std::set<std::string_view> explained;
  for (const auto& tag : document_.at("tags").as_array()) {
    explained.insert(tag.at("name").as_string());
  }
  for (const BoundRoute& route : all_routes()) EXPECT_TRUE(explained.contains(route.info.tag));
}

TEST_F(Description, SchemaCheckDetectsInvalidDocuments) {
  SchemaCheck schemas(document_);
  const bj::value schema = bj::object{{"$ref", "#/components/schemas/GPUDevicesResponse"}};
  EXPECT_THAT(schemas.problems(bj::parse(R"({"devices":[],"count":0})"), schema), IsEmpty());
  for (const char* wrong :
       {R"({"devices":[]})", R"({"devices":[],"count":"0"})", R"({"devices":[{}],"count":1})",
        R"([])", R"({"devices":[],"count":0,"more":1})"}) {
    EXPECT_FALSE(schemas.problems(bj::parse(wrong), schema).empty()) << wrong;
  }
}

}  // namespace
}  // namespace gpuyard::api
