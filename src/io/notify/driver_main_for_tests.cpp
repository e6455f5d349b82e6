// The dispatcher as a program, for tests with real receivers: notify_driver SINKS.toml. Its input,
// a line each: a notification as JSON, for the sinks that want it; "firing [NOTICES]"; "reload";
// "figures". It prints "delivered SINK ID", "dead SINK ID WHY" and figures as JSON, and ends with
// its input.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "io/http/loop.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::notify {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::string to_json(const SinkStats& figures) {
  std::string out = "{\"name\":" + json::to_json(figures.name);
  out += ",\"kind\":" + json::to_json(figures.kind);
  out += ",\"where\":" + json::to_json(figures.destination);
  out += ",\"queued\":" + json::to_json(figures.queued);
  out += ",\"delivered_total\":" + json::to_json(figures.delivered_total);
  out += ",\"retries_total\":" + json::to_json(figures.retries_total);
  out += ",\"dead_letters_total\":" + json::to_json(figures.dead_letters_total);
  out += std::string(",\"failing\":") + (figures.failing_since ? "true" : "false");
  return out + ",\"last_error\":" + json::to_json(figures.last_error) + "}";
}

class Driver {
 public:
  Driver(http::IoLoop& loop, std::string file)
      : loop_(loop),
        file_(std::move(file)),
        dispatcher_(
            loop, make_sender_factory(loop, make_worker_factory(loop)),
            {.on_delivered = [](const auto& sink,
                                const auto& id) { say(fmt::format("delivered {} {}", sink, id)); },
             .on_dead_letter =
                 [](const auto& sink, const auto& id, const auto& why) {
                   say(fmt::format("dead {} {} {}", sink, id, why));
                 }}) {
    reload();
    input_ = loop_.watch(STDIN_FILENO, [this] { read(); });
  }

 private:
  void reload() {
    const auto text = read_file(file_, kMaxFileBytes);
    auto sinks = text ? read_sinks(*text, file_) : text.error();
    const auto done = sinks ? dispatcher_.replace(*std::move(sinks)) : std::move(sinks).error();
    say(done ? "ready" : "refused " + done.error().text());
  }

  void read() {
    std::array<char, 65536> space{};
    const ssize_t got = ::read(STDIN_FILENO, space.data(), space.size());
    if (got <= 0) return loop_.stop();
    pending_.append(space.data(), static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = pending_.find('\n')) != pending_.npos;) {
      obey(pending_.substr(0, end));
      pending_.erase(0, end + 1);
    }
  }

  void obey(const std::string& line) {
    constexpr std::string_view kFiring = "firing ";
    if (line == "reload") return reload();
    if (line == "figures") {
      for (const SinkStats& figures : dispatcher_.stats()) say(to_json(figures));
    } else if (line.starts_with(kFiring)) {
      auto notices = json::from_json<std::vector<Notification>>(line.substr(kFiring.size()));
      if (!notices) return say("refused " + notices.error().text());
      std::vector<FiringNotification> firing;
      for (const Notification& one : *notices)
        firing.push_back({one, dispatcher_.sink_names_at(one.level)});
      dispatcher_.set_firing(std::move(firing));
    } else {
      const auto notice = json::from_json<Notification>(line);
      if (!notice) return say("refused " + notice.error().text());
      for (const auto& sink : dispatcher_.sink_names_at(notice->level))
        dispatcher_.send(sink, *notice);
    }
  }

  http::IoLoop& loop_;
  std::string file_;
  SinkDispatcher dispatcher_;
  std::string pending_;
  Subscription input_;
};

}  // namespace
}  // namespace gpuyard::notify

int main(int count, char** arguments) {
  if (count != 2) return 2;
  gpuyard::http::IoLoop loop;
  const gpuyard::notify::Driver driver(loop, arguments[1]);
  loop.run();
  return 0;
}
