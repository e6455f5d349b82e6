#include "base/filter.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/golden_for_tests.h"

namespace gpuyard {
namespace {

// The cases that the page's filter is held to, too.
boost::json::object cases() {
  const std::ifstream file(source_directory() + "/tests/data/filters.json");
  std::stringstream text;
  text << file.rdbuf();
  return boost::json::parse(text.str()).as_object();
}

FilterValue value_of(const boost::json::value& json) {
  if (json.is_null()) return {};
  if (json.is_string()) return std::string(json.as_string());
  return json.to_number<double>();
}

std::vector<std::string_view> fields_of(const boost::json::object& all) {
  std::vector<std::string_view> fields;
  for (const auto& field : all.at("fields").as_array()) fields.push_back(field.as_string());
  return fields;
}

TEST(Filter, MatchesSameRowsAsPage) {
  const auto all = cases();
  const auto fields = fields_of(all);
  std::vector<std::vector<FilterValue>> rows;
  for (const auto& row : all.at("rows").as_array()) {
    rows.emplace_back();
    for (const auto field : fields) rows.back().push_back(value_of(row.at(field)));
  }
  ASSERT_GE(all.at("passes").as_array().size(), 20U);
  for (const auto& one : all.at("passes").as_array()) {
    const std::string text(one.at("filter").as_string());
    const auto filter = Filter::parse(text, fields);
    ASSERT_TRUE(filter.ok()) << text << ": " << filter.error().message;
    std::vector<std::size_t> passing;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (filter->matches(rows[i])) passing.push_back(i);
    }
    std::vector<std::size_t> wanted;
    for (const auto& row : one.at("rows").as_array()) {
      wanted.push_back(row.to_number<std::size_t>());
    }
    EXPECT_EQ(passing, wanted) << text;
  }
}

TEST(Filter, ErrorsNameTheColumn) {
  const auto all = cases();
  const auto fields = fields_of(all);
  ASSERT_GE(all.at("errors").as_array().size(), 8U);
  for (const auto& one : all.at("errors").as_array()) {
    const std::string text(one.at("filter").as_string());
    const auto filter = Filter::parse(text, fields);
    ASSERT_FALSE(filter.ok()) << text;
    const std::string column = "column " + std::to_string(one.at("column").to_number<int>()) + ":";
    EXPECT_TRUE(filter.error().message.starts_with(column)) << text << "\n"
                                                            << filter.error().message;
  }
}

TEST(Filter, IsBounded) {
  const std::string_view field = "gpu";
  const std::span fields(&field, 1);
  EXPECT_FALSE(Filter::parse(std::string(Filter::kMaxLength + 1, ' '), fields).ok());
  EXPECT_FALSE(Filter::parse(std::string(Filter::kMaxLength, '('), fields).ok());
  EXPECT_TRUE(Filter::parse(std::string(Filter::kMaxLength - 1, '!') + "x", fields).ok());
}

}  // namespace
}  // namespace gpuyard
