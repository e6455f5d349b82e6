#include "core/andon/reference_for_tests.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/golden_for_tests.h"
#include "core/andon/rule_reader.h"

namespace gpuyard::andon {
namespace {

// Returns the texts between ```toml and ```.
std::vector<std::string> examples_of(std::string_view text) {
  constexpr std::string_view kBegin = "```toml\n";
  std::vector<std::string> examples;
  for (auto begin = text.find(kBegin); begin != text.npos; begin = text.find(kBegin)) {
    text.remove_prefix(begin + kBegin.size());
    const std::size_t end = text.find("```");
    examples.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size()));
  }
  return examples;
}

TEST(AndonReference, CommittedFileMatchesGeneratedText) {
  RecordProperty("contract", "C19");
  expect_document("andon.md", reference());
}

TEST(AndonReference, EveryExampleFileIsAccepted) {
  const auto examples = examples_of(reference());
  ASSERT_EQ(examples.size(), 4U);
  for (const std::string& example : examples) {
    const auto rules = apply_rules(built_in_rules(), example, "alerts.toml");
    EXPECT_TRUE(rules) << (rules ? "" : rules.error().message) << "\n" << example;
  }
}

// The numbers are those of the third example's text.
TEST(AndonReference, CustomRuleExampleMatchesDescription) {
  const auto rules = apply_rules(built_in_rules(), examples_of(reference()).at(2), "alerts.toml");
  ASSERT_TRUE(rules) << rules.error().message;
  const Rule* const rule = find_rule(*rules, "memory-hot");
  ASSERT_NE(rule, nullptr);
  EXPECT_TRUE(std::holds_alternative<MetricSource>(rule->source));
  EXPECT_TRUE(rule->quarantine);
  EXPECT_EQ(rule->cap_w, 300);
  EXPECT_TRUE(rule->is_reached(95) && !rule->is_reached(94));
  EXPECT_TRUE(rule->is_clear(87) && !rule->is_clear(88));
}

TEST(AndonReference, TextNamesEveryRuleAndSignal) {
  const std::string text = reference();
  for (const Rule& rule : built_in_rules()) {
    EXPECT_NE(text.find("`" + rule.name + "`"), text.npos) << rule.name;
    EXPECT_NE(text.find(rule.message), text.npos) << rule.name;
  }
  for (const SignalRow& row : signals()) EXPECT_NE(text.find(row.help), text.npos) << row.name;
}

TEST(Documents, TheIndexLeadsToEveryDocument) {
  RecordProperty("contract", "C19");
  const std::string index = document("README.md");
  std::size_t documents = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_directory() + "/docs")) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".md" || name == "README.md") continue;
    ++documents;
    EXPECT_NE(index.find("(" + name + ")"), index.npos) << name;
  }
  EXPECT_GT(documents, 10U);
}

}  // namespace
}  // namespace gpuyard::andon
