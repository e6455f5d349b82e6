// The program that tests run as a world server, and as a world server's creator that they can kill.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "sim/demo.h"
#include "sim/world_server_main.h"

int main(int count, char** arguments) {
  using namespace gpuyard::sim;
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.empty()) return 2;
  if (given[0] == "sim-keeper") return world_server_main(std::span(given).subspan(1));
  if (given[0] == kDemoVerb) return demo_main(std::span(given).subspan(1));
  // create DIRECTORY [private]
  if (given[0] != "create" || given.size() < 2) return 2;
  const WorldOptions options{
      .directory = given[1], .gpus = 1, .private_directory = given.size() > 2};
  const auto world = start_world(options, WorldLifetime::with_creator);
  // The pid goes to the spawning test this way because stdout is /dev/null.
  ::dprintf(gpuyard::kFirstPassedFd, "%d\n", world ? world->server_pid() : 0);
  return ::pause();
}
