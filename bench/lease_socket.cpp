// The parts of `./yard bench`'s row about leases over the socket: claims as a client sees them,
// with the daemon's commit on the disk before each answer. Each prints its times as JSON.
//
//   bench_lease_socket grants SOCKET GPUS ROUNDS     claims one GPU after the other until all are
//                                                    taken, gives them back, waits till they are
//                                                    free
//   bench_lease_socket crowd SOCKET CLIENTS ROUNDS   so many clients at once, each of which claims
//                                                    a GPU that is taken and releases the claim
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "round_trips.h"

namespace gpuyard::bench {
namespace {

constexpr const char* kClaims = "POST /api/gpu/leases";

std::string claim_of(const std::string& id) {
  return request_of(kClaims, fmt::format(R"({{"id":"{}","binding":"detached","ttl_s":600,)"
                                         R"("answer_within_s":0}})",
                                         id));
}

std::string release_of(const std::string& id) {
  return request_of("DELETE /api/gpu/leases/" + id);
}

bool matches_text(const std::string& answer, std::string_view words) {
  if (answer.find(words) != answer.npos) return true;
  std::fputs(answer.c_str(), stderr);
  return false;
}

// The daemon checks every 250 ms whether released GPUs are free.
void wait_until_free(const Connection& server) {
  constexpr int kMaxPolls = 500;
  for (int poll = 0; poll < kMaxPolls; ++poll) {
    const std::string load = server.request(request_of("GET /api/gpu/load"));
    if (load.find(R"("leased":true)") == load.npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  fail("released GPUs do not become free");
}

int grants(const std::string& socket, int gpus, int rounds) {
  const Connection server(socket);
  RoundTrips claims;
  RoundTrips releases;
  for (int round = 0; round <= rounds; ++round) {
    const bool counted = round > 0;  // except the first, which warms up
    const auto id = [&](int gpu) { return fmt::format("a-grant-{:06}-{:03}", round, gpu); };
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const std::string request = claim_of(id(gpu));
      if (!counted) {
        matches_text(request_until_accepted(server, request), R"("state":"held")");
        continue;
      }
      claims.add([&] { return matches_text(server.request(request), R"("state":"held")"); });
    }
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const std::string request = release_of(id(gpu));
      releases.add([&] { return matches_text(server.request(request), "HTTP/1.1 200 "); }, counted);
    }
    wait_until_free(server);
  }
  std::puts(fmt::format(R"({{"claim":{},"release":{}}})", claims.text(), releases.text()).c_str());
  return 0;
}

// A GPU may become available a moment after the daemon has started: these claims wait for it.
void claim_all_gpus(const Connection& holder) {
  constexpr int kMaxTries = 500;
  for (int i = 0; i < kMaxTries; ++i) {
    const auto answer =
        request_until_accepted(holder, claim_of(fmt::format("who-holds-all-{:04}", i)));
    if (answer.find(R"("state":"held")") != answer.npos) continue;
    const std::string load = holder.request(request_of("GET /api/gpu/load"));
    if (load.find(R"("leased":false)") == load.npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  fail("not all GPUs can be claimed");
}

int crowd(const std::string& socket, int clients, int rounds) {
  const Connection holder(socket);
  claim_all_gpus(holder);
  std::vector<RoundTrips> claims(static_cast<std::size_t>(clients));
  const TimePoint began = BootClock::now();
  {
    std::vector<std::jthread> threads;
    for (int client = 0; client < clients; ++client) {
      threads.emplace_back([&, client] {
        const Connection server(socket);
        for (int round = 0; round < rounds; ++round) {
          const std::string id = fmt::format("of-a-crowd-{:03}-{:06}", client, round);
          claims[static_cast<std::size_t>(client)].add(
              [&] { return matches_text(server.request(claim_of(id)), R"("state":"waiting")"); });
          if (!matches_text(server.request(release_of(id)), "HTTP/1.1 200 "))
            fail("a claim was not cancelled");
        }
      });
    }
  }
  const double seconds = std::chrono::duration<double>(BootClock::now() - began).count();
  RoundTrips all;
  for (const RoundTrips& of_client : claims) all.add(of_client);
  std::puts(fmt::format(R"({{"claim":{},"changes_per_s":{:.0f}}})", all.text(),
                        2.0 * clients * rounds / seconds)
                .c_str());
  return 0;
}

int run(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t word) { return std::atoi(words[word].c_str()); };
  if (words.size() == 4 && words[0] == "grants") return grants(words[1], number(2), number(3));
  if (words.size() == 4 && words[0] == "crowd") return crowd(words[1], number(2), number(3));
  fail("see the first lines of bench/lease_socket.cpp");
}

}  // namespace
}  // namespace gpuyard::bench

int main(int argc, char** argv) {
  return gpuyard::bench::run({argv + 1, argv + argc});
}
