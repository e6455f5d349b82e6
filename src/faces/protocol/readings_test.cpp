#include "faces/protocol/readings.h"

#include <random>

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"

namespace gpuyard::protocol {
namespace {

Sample sample_of(std::vector<Reading> readings) {
  Sample sample;
  for (Reading& reading : readings) sample.set(std::move(reading));
  return sample;
}

// Returns the JSON of one field.
std::string field(const Sample& sample, const char* key) {
  const std::string text = json::to_json(sample);
  return boost::json::serialize(boost::json::parse(text).at(key));
}

TEST(Readings, UnitsMatchFieldNames) {
  const Sample sample = sample_of({{Metric::memory_total, 0, {}, std::int64_t{85520809984}},
                                   {Metric::power_draw, 0, {}, std::int64_t{312'500}},
                                   {Metric::energy_total, 0, {}, std::int64_t{7}},
                                   {Metric::gpm_tensor, 0, {}, std::int64_t{12'345}},
                                   {Metric::serial, 0, {}, "1320000000000"}});
  const std::string text = json::to_json(sample);
  for (const char* expected : {R"("memory_total_bytes":85520809984,)", R"("power_draw_w":312.5,)",
                               R"("energy_total_j":0.007,)", R"("gpm_tensor_percent":12.345,)",
                               R"("serial":"1320000000000",)", R"("power_limit_w":null,)"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  }
}

TEST(Readings, EmptySampleHasNullForEveryMeasuredRow) {
  const auto object = boost::json::parse(json::to_json(Sample())).as_object();
  std::size_t measured = 0;
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device) continue;
    ++measured;
    EXPECT_TRUE(object.at(gpuyard::json_key(row)).is_null()) << row.key;
  }
  EXPECT_EQ(object.size(), measured);
}

TEST(Readings, StatesAndFlagsAreWords) {
  const Sample sample = sample_of({{Metric::compute_mode, 0, {}, std::int64_t{3}},
                                   {Metric::ecc_mode, 0, {}, std::int64_t{17}},
                                   {Metric::throttle_reasons, 0, {}, std::int64_t{0x44}}});
  EXPECT_EQ(field(sample, "compute_mode"), R"("exclusive_process")");
  EXPECT_EQ(field(sample, "ecc_mode"), R"("17")");  // no word for it yet
  EXPECT_EQ(field(sample, "throttle_reasons"), R"(["sw_power_cap","hw_thermal"])");
}

TEST(Readings, OfFlagsWithoutAWordAreOther) {
  for (const std::int64_t bits : {INT64_MIN, std::int64_t{0x200}, INT64_MIN | 0x10000}) {
    const Sample sample = sample_of({{Metric::throttle_reasons, 0, {}, bits | 0x40}});
    EXPECT_EQ(field(sample, "throttle_reasons"), R"(["hw_thermal","other"])");
  }
}

TEST(Readings, CarryCountersThatADoubleRounds) {
  constexpr std::int64_t kWeeksOfNvlink = (std::int64_t{1} << 60U) + (1 << 20);
  const Sample sample = sample_of({{Metric::nvlink_tx, 0, {}, kWeeksOfNvlink}});
  const auto read = json::from_json<Sample>(json::to_json(sample));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(number_of(*read, Metric::nvlink_tx), kWeeksOfNvlink);
}

TEST(Readings, DimensionedRowsAreListsOrObjects) {
  const Sample sample = sample_of({{Metric::fan_speed, 0, {}, std::int64_t{30}},
                                   {Metric::fan_speed, 1, {}, Missing{}},
                                   {Metric::ecc_corrected_volatile_at, 1, {}, std::int64_t{4}},
                                   {Metric::ecc_corrected_volatile_at, 7, {}, std::int64_t{0}}});
  EXPECT_EQ(field(sample, "fan_speed_percent"), "[30,null]");
  EXPECT_EQ(field(sample, "ecc_corrected_volatile_at"), R"({"l2_cache":4,"sram":0})");
  EXPECT_EQ(field(sample_of({{Metric::fan_speed, 0, {}, Missing{}}}), "fan_speed_percent"), "null");
}

// Returns any value that a row can hold.
std::variant<Missing, std::int64_t, std::string> any_value(const MetricRow& row,
                                                           std::mt19937_64& random) {
  if (random() % 4 == 0) return Missing{};
  if (row.kind == MetricKind::text) return "text \"" + std::to_string(random() % 100);
  const auto number = static_cast<std::int64_t>(random() % (1ULL << (random() % 48)));
  if (row.kind != MetricKind::flags) return number;
  std::int64_t known = INT64_MIN;  // of the bits that are `other`, JSON keeps this one
  for (const MetricWord& word : row.words.first(row.words.size() - 1)) known |= word.value;
  return (random() % 2 == 0 ? number | INT64_MIN : number) & known;
}

Sample any_sample(std::mt19937_64& random) {
  Sample sample;
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device) continue;
    const auto elements = static_cast<std::uint16_t>(1 + random() % extent_of(row.dimension));
    for (std::uint16_t index = 0; index < elements; ++index) {
      sample.set({row.metric, index, {}, any_value(row, random)});
    }
  }
  return sample;
}

TEST(Readings, SurviveJsonExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const Sample sample = any_sample(random);
    const auto read = json::from_json<Sample>(json::to_json(sample));
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(*read, sample) << json::to_json(sample);
  }
}

TEST(Readings, OfANewerDaemonMayHoldMore) {
  const auto read = json::from_json<Sample>(
      R"({"power_draw_w":1.5,"future_thing":7,"throttle_reasons":["idle","future_reason"],)"
      R"("ecc_corrected_volatile_at":{"sram":2,"future_place":9}})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(number_of(*read, Metric::power_draw), 1500);
  EXPECT_EQ(number_of(*read, Metric::energy_total), std::nullopt);
  EXPECT_EQ(number_of(*read, Metric::throttle_reasons), INT64_MIN | 1)
      << "the new word is another reason";
  EXPECT_EQ(number_of(*read, Metric::ecc_corrected_volatile_at, 7), 2);
}

TEST(Readings, MissingReadingsGetTheirReasons) {
  const Sample sample = sample_of({{Metric::power_draw, 0, {}, Missing{}},
                                   {Metric::fan_speed, 0, {}, std::int64_t{30}},
                                   {Metric::fan_speed, 1, {}, Missing{}}});
  const Missing lost{MissingReason::device_lost, ""};
  const Missing denied{MissingReason::no_permission, ""};
  const Sample read = with_reasons(
      sample,
      {{"power_draw_w", lost}, {"fan_speed_percent", lost}, {"fan_speed_percent/1", denied}});
  EXPECT_EQ(*read.find(Metric::power_draw)->missing(), lost);
  EXPECT_EQ(*read.number(Metric::fan_speed), 30);
  EXPECT_EQ(*read.find(Metric::fan_speed, 1)->missing(), denied);
}

TEST(Reasons, AreWordsInJson) {
  const Reasons reasons{{"clock_sm_mhz", {MissingReason::not_supported, "Not Supported"}},
                        {"power_draw_w", {MissingReason::timed_out, ""}}};
  const std::string text = json::to_json(reasons);
  EXPECT_EQ(text, R"({"clock_sm_mhz":"Not Supported",)"
                  R"("power_draw_w":"the driver did not respond in time"})");
  EXPECT_EQ(*json::from_json<Reasons>(text), reasons);
  EXPECT_EQ(json::from_json<Reasons>(R"({"power_draw_w":7})").error().message,
            "/power_draw_w: expected a string");
}

TEST(Readings, InvalidValueIsReportedWithPath) {
  const auto problem = [](const char* text) {
    return json::from_json<Sample>(text).error().message;
  };
  EXPECT_EQ(problem(R"({"power_draw_w":"1"})"), "/power_draw_w: must be a number or null");
  EXPECT_EQ(problem(R"({"energy_total_j":1e300})"), "/energy_total_j: out of range");
  EXPECT_EQ(problem(R"({"serial":7})"), "/serial: must be a string or null");
  EXPECT_EQ(problem(R"({"compute_mode":"unheard of"})"),
            "/compute_mode: must be a word of this field or null");
  EXPECT_EQ(problem(R"({"throttle_reasons":[1]})"),
            "/throttle_reasons: must be a list of words or null");
  EXPECT_EQ(problem(R"({"fan_speed_percent":3})"),
            "/fan_speed_percent: must be a list, an object or null");
  EXPECT_EQ(problem(R"({"fan_speed_percent":[3,"x"]})"),
            "/fan_speed_percent/1: must be a number or null");
}

TEST(Readings, HaveASchemaWithEveryField) {
  const auto schema = json::schema(json::shape_of<Sample>);
  const auto& properties = schema.at("properties").as_object();
  EXPECT_EQ(properties.size(), schema.at("required").as_array().size());
  EXPECT_EQ(boost::json::serialize(properties.at("fan_speed_percent").at("items").at("type")),
            R"(["integer","null"])");
  EXPECT_EQ(boost::json::serialize(properties.at("throttle_reasons").at("type")),
            R"(["array","null"])");
}

TEST(JsonKey, NamesOneOfSeveralElements) {
  EXPECT_EQ(json_key(row_of(Metric::fan_speed), 1), "fan_speed_percent/1");
  EXPECT_EQ(json_key(row_of(Metric::power_draw), 0), "power_draw_w");
}

}  // namespace
}  // namespace gpuyard::protocol
