// The commands that messages, advice and the web page quote: each is one that the program accepts.
#include "cli/command_line_for_tests.h"

#include <array>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"

namespace gpuyard::cli {
namespace {

namespace fs = std::filesystem;
using std::string_view;

struct Quoted {
  std::string command;
  std::string file;
};

std::string replaced(std::string text, string_view from, string_view to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Joins a literal that the source breaks over several lines, and drops comments.
std::string joined_source(string_view source, string_view comment) {
  std::string text;
  for (string_view rest = source; !rest.empty();) {
    const string_view line = take_until('\n', rest);
    const string_view code = trim(line.substr(0, line.find(fmt::format("  {} ", comment))));
    if (code.starts_with(comment)) continue;
    const string_view literal = code.substr(code.starts_with("f\"") ? 1 : 0);
    if (literal.starts_with('"') && trim(text).ends_with('"')) {
      text.erase(text.find_last_of('"'));
      text += literal.substr(1);
    } else {
      text += code;
    }
    text += '\n';
  }
  return replaced(replaced(std::move(text), "\\\"", "'"), "\\n", "\n");
}

std::string without_docstrings(string_view source) {
  constexpr string_view kMark = "\"\"\"";
  std::string text;
  while (!source.empty()) {
    const auto begin = std::min(source.find(kMark), source.size());
    text += source.substr(0, begin);
    const auto end = source.find(kMark, begin + 1);
    if (end == source.npos) break;
    source.remove_prefix(end + kMark.size());
  }
  return text;
}

// A page's ${...} becomes {}, and nothing if it adds words only under a condition.
std::string without_templates(std::string text) {
  for (auto end = text.find('}'); end != text.npos; end = text.find('}', end + 1)) {
    const auto begin = text.rfind('{', end);
    if (begin == text.npos || begin == 0 || text[begin - 1] != '$') continue;
    const bool conditional = text.substr(begin, end - begin).find(" ? ") != text.npos;
    text.replace(begin - 1, end + 2 - begin, conditional ? "" : "\x01");
    end = begin - 1;
  }
  return replaced(std::move(text), "\x01", "{}");
}

// Finds what stands between `open` and one of `closing`, or the end of its line.
void add_quoted(const std::string& text, string_view open, string_view closing,
                const std::string& file, std::vector<Quoted>& found) {
  for (auto at = text.find(open); at != text.npos; at = text.find(open, at + 1)) {
    const auto begin = at + open.find("gpuyard");
    const auto end = text.find_first_of(closing, begin);
    found.push_back({text.substr(begin, end - begin), file});
  }
}

std::string text_of(const fs::path& file) {
  const std::string source = *read_file(file.string(), std::size_t{1} << 20);
  if (file.extension() == ".js") return without_templates(source);
  if (file.extension() == ".py") return joined_source(without_docstrings(source), "#");
  return joined_source(source, "//");
}

std::vector<Quoted> quoted_in(const fs::path& file, const std::string& name) {
  const std::string text = text_of(file);
  std::vector<Quoted> found;
  for (const char* open : {"`gpuyard ", "`sudo gpuyard ", "`gpuyard{} "}) {
    add_quoted(text, open, "`\n", name, found);
  }
  // Hints, examples, and the commands that a page shows.
  for (const char* open : {"\"gpuyard ", "\"sudo gpuyard ", "\ngpuyard ", ": gpuyard "}) {
    add_quoted(text, open, "\"\n", name, found);
  }
  return found;
}

// Whether it is a sentence, a usage line, a part of a line that is put together later, or a line
// whose verb is put in at run time.
bool is_no_command(string_view text) {
  constexpr std::array kSentences = {"is",  "can",  "does",      "was",
                                     "for", "asks", "allocates", "leases the GPUs"};
  constexpr string_view kTitle = "fleet  ";  // of the screen
  const string_view rest = text.substr(std::min(text.find(' ') + 1, text.size()));
  const auto begins = [&](string_view word) { return rest.starts_with(word); };
  return text.ends_with(' ') || text.find('[') != text.npos || begins("{}") || begins(kTitle) ||
         std::ranges::any_of(kSentences, begins);
}

bool is_message_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.find("_test.") == name.npos && name.find("for_tests") == name.npos &&
         name != "schema.cpp" && file.string().find("third_party") == std::string::npos;
}

std::vector<Quoted> all_quoted() {
  const fs::path root = GPUYARD_SOURCE_DIR;
  std::vector<Quoted> found;
  for (const auto& [folder, extensions] : {
           std::pair{"src", std::set<std::string>{".cpp", ".h", ".def"}},
           std::pair{"web/page", std::set<std::string>{".js"}},
           std::pair{"python/gpuyard", std::set<std::string>{".py"}},
       }) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& file = entry.path();
      if (!extensions.contains(file.extension().string()) || !is_message_file(file)) continue;
      std::ranges::move(quoted_in(file, fs::relative(file, root).string()), back_inserter(found));
    }
  }
  return found;
}

// Replaces {} and {0}, and words in capitals such as GPU,... or DURATION, with a value.
std::string sample_of(const std::string& word, const std::string& before) {
  static const std::map<std::string, std::string> kSamples = {
      {"slurm", "status"}, {"--scope", "read"}, {"--signal", "TERM"}, {"--for", "1h"}};
  const auto found = kSamples.find(before);
  const std::string sample = found != kSamples.end() ? found->second : "1";
  std::string text;
  for (string_view rest = word; !rest.empty();) {
    const auto open = std::min(rest.find('{'), rest.size());
    const auto close = rest.find('}', open);
    if (close == rest.npos) {
      text += rest;
      break;
    }
    text.append(rest.substr(0, open)).append(sample);
    rest.remove_prefix(close + 1);
  }
  const bool capitals =
      text.size() > 1 && text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ,.:_") == text.npos;
  return capitals || text == "N" ? sample : text;
}

std::vector<std::string> sample_words(string_view command) {
  std::vector<std::string> words = shell_words(command);
  std::erase(words, "...");
  words.front() = "gpuyard";  // a placeholder for -H and its value may stand behind it
  for (std::size_t i = 1; i < words.size(); ++i) words[i] = sample_of(words[i], words[i - 1]);
  words.erase(words.begin());
  return words;
}

TEST(QuotedCommands, AreAcceptedByTheProgram) {
  std::set<std::string> seen;
  for (const Quoted& quoted : all_quoted()) {
    if (is_no_command(quoted.command) || !seen.insert(quoted.command).second) continue;
    const std::vector<std::string> words = sample_words(quoted.command);
    Words line;
    for (const std::string& word : words) line.push_back(word.c_str());
    const ParseOutcome ended = end_of(line);
    EXPECT_NE(ended.code, 2) << quoted.file << ": " << quoted.command << "\n" << ended.err;
  }
  EXPECT_GT(seen.size(), 100U) << "not all sources were read";
}

}  // namespace
}  // namespace gpuyard::cli
