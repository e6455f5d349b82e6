// gpuyard kube manifest: what `kubectl apply` needs, without Helm and without a registry's name in
// the source tree.
#include "cli/kube/manifest.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/kube/verbs.h"
#include "cli/screen/output.h"

namespace gpuyard::cli::kube {
namespace {

constexpr std::size_t kMaxImageBytes = 255;     // as registries have it
constexpr std::size_t kMaxNamespaceBytes = 63;  // of a label in the DNS

constexpr std::string_view kNamespaceCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-";
// The text has the image in double quotes, in which none of these has a meaning.
constexpr std::string_view kImageCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:@";
constexpr std::string_view kImageSeparators = "._-/:@";

std::string example_image() {
  return fmt::format("registry.example.com/gpuyard:{}", kVersion);
}

std::string example_command() {
  return fmt::format("gpuyard kube manifest --image {} | kubectl apply -f -", example_image());
}

bool is_image(std::string_view name) {
  return !name.empty() && name.size() <= kMaxImageBytes &&
         name.find_first_not_of(kImageCharacters) == name.npos &&
         kImageSeparators.find(name.front()) == name.npos && !name.ends_with('/') &&
         !name.ends_with(':') && !name.ends_with('@');
}

bool is_namespace(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNamespaceBytes &&
         name.find_first_not_of(kNamespaceCharacters) == name.npos && !name.starts_with('-') &&
         !name.ends_with('-');
}

// How a line begins, after its indentation, and what takes the place of that.
struct LineStart {
  std::string before;
  std::string after;
};

// The chart puts the image and the namespace where they are replaced here. Each place is a start of
// a line that nothing else in the text has: `gpuyard` alone is also the name of objects, of labels
// and of folders. The file stays one that kubectl accepts as it is, without placeholders. A place
// that is missing here fails the test in packaging/container, which compares with Helm's output.
std::vector<LineStart> replaced_starts(std::string_view image, std::string_view name_space) {
  const auto account_in = [](std::string_view place) {
    return fmt::format(
        "expression: request.userInfo.username == 'system:serviceaccount:{}:gpuyard'", place);
  };
  // As gpuyard.clusterName of the chart: objects without a namespace must not be shared by two
  // installations.
  const std::string prefix = name_space == kManifestNamespace ? "" : fmt::format("{}-", name_space);
  return {
      {fmt::format(R"(image: "gpuyard:{}")", kVersion), fmt::format(R"(image: "{}")", image)},
      {fmt::format(R"(namespace: "{}")", kManifestNamespace),
       fmt::format(R"(namespace: "{}")", name_space)},
      {fmt::format(R"(name: "{}")", kManifestNamespace), fmt::format(R"(name: "{}")", name_space)},
      {"name: gpuyard-agent", fmt::format("name: {}gpuyard-agent", prefix)},
      {"policyName: gpuyard-agent", fmt::format("policyName: {}gpuyard-agent", prefix)},
      {account_in(kManifestNamespace), account_in(name_space)},
  };
}

std::string replaced_line(std::string_view line, const std::vector<LineStart>& starts) {
  const std::size_t indentation = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view entry = line.substr(indentation);
  for (const LineStart& start : starts) {
    if (!entry.starts_with(start.before)) continue;
    return fmt::format("{}{}{}", line.substr(0, indentation), start.after,
                       entry.substr(start.before.size()));
  }
  return std::string(line);
}

// Returns the objects, without the comment before them, which says to edit the file.
std::string_view objects_of(std::string_view text) {
  return text.substr(text.find("\n---\n") + 1);
}

}  // namespace

Result<void> check_image(std::string_view image) {
  if (is_image(image)) return {};
  if (image.empty()) {
    return Error{Errc::invalid, "kube manifest needs --image NAME",
                 "no registry has an image of gpuyard: push the one that you have built to yours",
                 example_command()};
  }
  return Error{
      Errc::invalid,
      fmt::format("--image: expected an image such as {}; got \"{}\"", example_image(), image), "",
      example_command()};
}

Result<void> check_namespace(std::string_view name_space) {
  if (is_namespace(name_space)) return {};
  return Error{Errc::invalid,
               fmt::format("--namespace: expected at most {} lower-case letters, digits and "
                           "hyphens, with none at either end; got \"{}\"",
                           kMaxNamespaceBytes, name_space)};
}

std::string manifest_for(std::string_view text, std::string_view image,
                         std::string_view name_space) {
  std::string made = fmt::format(
      "# gpuyard {} and its Kubernetes agent on every node with GPUs. Printed by\n"
      "#\n"
      "#   gpuyard kube manifest --image {} --namespace {}\n"
      "#\n"
      "# It needs Kubernetes 1.30 or newer. An older one has no admission policies: `kubectl "
      "apply` then\n"
      "# installs the agent without them, and the agent of a node could change every Node.\n",
      kVersion, image, name_space);
  const std::vector<LineStart> starts = replaced_starts(image, name_space);
  for (std::string_view rest = objects_of(text); !rest.empty();) {
    made += replaced_line(take_until('\n', rest), starts) + '\n';
  }
  return made;
}

int print_manifest(const KubeVerb& verb) {
  if (const auto checked = check_image(verb.image); !checked) return print_error(checked.error());
  if (const auto checked = check_namespace(verb.name_space); !checked) {
    return print_error(checked.error());
  }
  print(Printable::lines(manifest_for(kManifestText, verb.image, verb.name_space)));
  return 0;
}

}  // namespace gpuyard::cli::kube
