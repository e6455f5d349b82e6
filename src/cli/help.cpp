#include "cli/help.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace gpuyard::cli {
namespace {

constexpr std::string_view kOtherOptions = "Options";
constexpr std::size_t kMaxNameWidth = 30;  // columns; longer names have a line of their own

struct HelpRow {
  std::string left;
  std::string right;
};

// Takes the next word of a text, or all of "[default: the terminal's]".
std::string_view take_word(std::string_view& text) {
  const bool bracketed = text.starts_with('[') && text.find(']') != text.npos;
  const std::size_t end = std::min(text.find(' ', bracketed ? text.find(']') : 0), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// Wraps a text between words. The first line begins at column `at`, all others at `indent`.
std::string wrapped_text(std::string_view text, std::size_t at, std::size_t indent,
                         std::size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::string_view word = take_word(text);
    const bool first = out.empty();
    if (!first && at + 1 + word.size() > columns) {
      out += '\n' + std::string(indent, ' ');
      at = indent;
    } else if (!first) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out;
}

// Two columns, of which the second is wrapped.
std::string rows_of(std::span<const HelpRow> rows, std::size_t left, std::size_t columns) {
  const std::size_t begin = left + 4;
  std::string out;
  for (const HelpRow& row : rows) {
    out += fmt::format("  {:<{}}", row.left, left);
    out += row.left.size() > left ? '\n' + std::string(begin, ' ') : "  ";
    out += wrapped_text(row.right, begin, begin, std::max(columns, begin + 20)) + '\n';
  }
  return out;
}

std::size_t left_width(std::span<const HelpRow> rows) {
  std::size_t width = 0;
  for (const HelpRow& row : rows) {
    if (row.left.size() <= kMaxNameWidth) width = std::max(width, row.left.size());
  }
  return width;
}

// Lines of which a remark, if there is one, begins in the same column.
std::string remarked_lines(std::span<const HelpRow> lines, std::size_t gap,
                           std::string_view indent) {
  std::size_t width = 0;
  for (const HelpRow& line : lines) {
    if (!line.right.empty()) width = std::max(width, line.left.size());
  }
  std::string out;
  for (const HelpRow& line : lines) {
    if (!out.empty()) out += indent;
    out += line.right.empty() ? line.left
                              : fmt::format("{:<{}}{}", line.left, width + gap, line.right);
    out += '\n';
  }
  return out;
}

std::string repeated_metavar(const OptionText& option) {
  const bool more = option.repeated && !option.metavar.ends_with("...");
  return option.metavar + (more ? "..." : "");
}

bool is_global(const OptionText& option) {
  return option.heading == kGlobalOptions;
}

bool is_shown_below_usage(const OptionText& option) {
  return option.shown && !option.argument && !is_global(option);
}

// Options under their headings, in the order of the first option of each.
struct OptionGroup {
  std::string heading;
  std::vector<HelpRow> rows;
};

std::vector<OptionGroup> groups_of(const VerbText& verb) {
  std::vector<OptionGroup> groups;
  for (const OptionText& option : verb.options) {
    if (!is_shown_below_usage(option)) continue;
    const std::string heading(option.heading.empty() ? kOtherOptions : option.heading);
    auto group = std::ranges::find(groups, heading, &OptionGroup::heading);
    if (group == groups.end()) group = groups.insert(group, {heading, {}});
    group->rows.push_back({names_of(option), text_of(option)});
  }
  return groups;
}

std::vector<HelpRow> arguments_of(const VerbText& verb) {
  std::vector<HelpRow> rows;
  for (const OptionText& option : verb.options) {
    if (option.argument) rows.push_back({names_of(option), text_of(option)});
  }
  return rows;
}

// The verbs below: of the program under their headings, of a verb under one.
std::string list_of_verbs(const VerbText& verb, std::size_t columns) {
  std::vector<HelpRow> rows;
  for (const VerbText& below : verb.verbs) rows.push_back({below.name, below.help});
  const std::size_t width = left_width(rows);
  std::string out;
  std::string heading;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& its_own = verb.verbs[i].heading;
    if (i == 0 || its_own != heading) {
      out += fmt::format("\n{}:\n", its_own.empty() ? "Commands" : its_own);
      heading = its_own;
    }
    out += rows_of({&rows[i], 1}, width, columns);
  }
  return out;
}

std::string described_globals(const VerbText& program, std::size_t columns) {
  std::vector<HelpRow> rows;
  for (const OptionText& option : global_options(program)) {
    rows.push_back({names_of(option), text_of(option)});
  }
  return fmt::format("\n{} (each command lists the ones it takes):\n{}", kGlobalOptions,
                     rows_of(rows, left_width(rows), columns));
}

// "Global options: -H, --json, -h (see gpuyard --help)"
std::string named_globals(const VerbText& program, const VerbText& verb, std::size_t columns) {
  std::vector<std::string> names;
  for (const OptionText& global : global_options(program)) {
    const bool taken = std::ranges::any_of(verb.options, [&](const OptionText& option) {
      return option.shown && is_global(option) && option.names == global.names;
    });
    if (taken) names.push_back(global.names.front());
  }
  if (names.size() < 2) return "";  // -h alone
  const std::string line =
      fmt::format("{}: {} (see {} --help)", kGlobalOptions, fmt::join(names, ", "), program.name);
  return '\n' + wrapped_text(line, 0, 2, columns) + '\n';
}

std::string list_of_examples(const VerbText& verb) {
  if (verb.examples.empty()) return "";
  std::vector<HelpRow> lines;
  for (const auto& [command, remark] : verb.examples) lines.push_back({command, remark});
  return "\nExamples:\n  " + remarked_lines(lines, 5, "  ");
}

}  // namespace

std::string text_of(const OptionText& option) {
  std::string text = option.help;
  if (!option.default_value.empty()) text += fmt::format(" [default: {}]", option.default_value);
  if (!option.environment.empty()) text += fmt::format(" [env: {}]", option.environment);
  // The usage has an argument that is required without brackets.
  if (option.required && !option.argument) text += " (required)";
  return text;
}

std::string names_of(const OptionText& option) {
  if (option.argument) {
    const std::string named = option.names.empty() ? "" : fmt::format("[{}] ", option.names.back());
    return named + repeated_metavar(option);
  }
  const bool is_long = option.names.front().starts_with("--");
  std::string names = fmt::format("{}{}", is_long ? "    " : "", fmt::join(option.names, ", "));
  if (!option.metavar.empty()) names += " " + option.metavar;
  return names;
}

std::vector<std::string> usage_of(const VerbText& verb, std::string_view path) {
  if (!verb.usage.empty()) return verb.usage;
  std::string line(path);
  std::string arguments;
  if (!verb.verbs.empty()) line += verb.needs_verb ? " COMMAND" : " [COMMAND]";
  for (const OptionText& option : verb.options) {
    if (option.argument) {
      const std::string metavar = (option.command ? "-- " : "") + repeated_metavar(option);
      arguments += option.required ? " " + metavar : fmt::format(" [{}]", metavar);
    } else if (option.required) {
      line += fmt::format(" {} {}", option.names.back(), option.metavar);
    }
  }
  return {line + " [OPTIONS]" + arguments};
}

std::vector<OptionText> global_options(const VerbText& program) {
  std::vector<OptionText> found;
  std::vector<OptionText> last;  // -h and --version, which the program itself has
  const auto add = [&](const VerbText& verb, const auto& again) -> void {
    const bool own = &verb == &program;
    for (const OptionText& option : verb.options) {
      const bool known = std::ranges::count(found, option.names, &OptionText::names) != 0 ||
                         std::ranges::count(last, option.names, &OptionText::names) != 0;
      if (!option.shown || !is_global(option) || known) continue;
      (own && option.metavar.empty() ? last : found).push_back(option);
    }
    for (const VerbText& below : verb.verbs) again(below, again);
  };
  add(program, add);
  std::ranges::move(last, std::back_inserter(found));
  return found;
}

Printable help_of(const VerbText& program, const std::vector<std::string>& path,
                  std::size_t columns) {
  const VerbText* verb = &program;
  std::string words = program.name;
  for (const std::string& name : path) {
    verb = &*std::ranges::find(verb->verbs, name, &VerbText::name);
    words += " " + name;
  }
  std::string out = verb->help + '\n';
  if (!verb->explanation.empty()) out += wrapped_text(verb->explanation, 0, 0, columns) + '\n';
  std::vector<HelpRow> usage;
  for (const std::string& line : usage_of(*verb, words)) {
    std::string_view rest = line;
    const std::string_view command = take_until('\t', rest);
    usage.push_back({std::string(command), std::string(rest)});
  }
  out += "\nUsage: " + remarked_lines(usage, 4, "       ");

  const std::vector<HelpRow> arguments = arguments_of(*verb);
  const std::vector<OptionGroup> groups = groups_of(*verb);
  std::size_t width = left_width(arguments);
  for (const OptionGroup& group : groups) width = std::max(width, left_width(group.rows));
  if (!arguments.empty()) out += "\nArguments:\n" + rows_of(arguments, width, columns);
  out += list_of_verbs(*verb, columns);
  for (const OptionGroup& group : groups) {
    out += fmt::format("\n{}:\n{}", group.heading, rows_of(group.rows, width, columns));
  }
  out +=
      path.empty() ? described_globals(program, columns) : named_globals(program, *verb, columns);
  out += list_of_examples(*verb);
  if (!verb->exit_codes.empty()) out += '\n' + wrapped_text(verb->exit_codes, 0, 2, columns) + '\n';
  return Printable::lines(out);
}

}  // namespace gpuyard::cli
