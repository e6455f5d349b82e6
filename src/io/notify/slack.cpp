#include <cctype>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "notify/requests.h"

namespace gpuyard::notify {
namespace {

// A section holds 3000 characters: message and advice have their share, names have less.
constexpr std::size_t kMostText = 1400;
constexpr std::size_t kMostName = 500;

// The three characters that mean something to Slack.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// At most so many bytes after it is escaped, too.
std::string fitted(const std::string& text, std::size_t most) {
  for (std::size_t raw = most;; raw /= 2) {
    std::string out = escaped(clipped(text, raw));
    if (out.size() <= most) return out;
  }
}

std::string headword(const Notice& notice) {
  if (notice.status == Status::resolved) return "RESOLVED";
  std::string word(enum_name(notice.level));
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return word;
}

std::string where(const Notice& notice) {
  std::string host = fitted(notice.host, kMostName);
  if (!notice.gpu) return host;
  return fmt::format("{}, GPU {} ({}, {})", host, notice.gpu->index,
                     fitted(notice.gpu->name, kMostName), fitted(notice.gpu->uuid, kMostName));
}

struct Text {
  std::string type = "mrkdwn";
  std::string text;
};
BOOST_DESCRIBE_STRUCT(Text, (), (type, text))

struct Section {
  std::string type = "section";
  Text text;
};
BOOST_DESCRIBE_STRUCT(Section, (), (type, text))

struct Context {
  std::string type = "context";
  std::vector<Text> elements;
};
BOOST_DESCRIBE_STRUCT(Context, (), (type, elements))

}  // namespace

http::ClientRequest slack_request(const SinkConfig& sink, const Notice& notice) {
  const std::string message = fitted(headline(notice), kMostText);
  Section section;
  section.text.text = fmt::format("*{}* {}", headword(notice), message);
  if (notice.status == Status::firing && !notice.advice.empty()) {
    section.text.text += "\n" + fitted(notice.advice, kMostText);
  }
  Context context;
  const std::string ended = notice.ended_at ? ", ended " + to_rfc3339(*notice.ended_at) : "";
  context.elements.push_back(
      {.text = fmt::format("{} | {} | severity {} | since {}{}", where(notice),
                           fitted(notice.rule, kMostName), notice.severity,
                           to_rfc3339(notice.started_at), ended)});
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = R"({"text":)";
  // What notifications show, and clients without blocks.
  json::put_string(request.body, fmt::format("{}: {}", headword(notice), message));
  request.body += R"(,"blocks":[)" + json::to_json(section) + "," + json::to_json(context) + "]}";
  return request;
}

}  // namespace gpuyard::notify
