#include "cli/kube/manifest.h"

#include <map>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/command_line_for_tests.h"
#include "cli/screen/printable.h"

namespace gpuyard::cli::kube {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::string_view kImage = "registry.example.com:5000/team/gpuyard:1.2";

std::vector<std::string> lines_in(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_until('\n', text));
  return lines;
}

// The text without the comment at its start.
std::string without_head(std::string_view text) {
  const std::size_t end = text.find("\n---\n");
  EXPECT_NE(end, text.npos);
  return std::string(text.substr(end + 1));
}

std::string image_of_file() {
  return fmt::format("gpuyard:{}", kVersion);
}

TEST(KubeManifest, TextIsThatOfTheFile) {
  const std::string path = GPUYARD_SOURCE_DIR "/packaging/kubernetes/daemonset_agent.yaml";
  const auto file = read_file(path, std::size_t{1} << 20);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(kManifestText, *file);
  EXPECT_EQ(Printable::lines(kManifestText).str(), kManifestText) << "printing would change it";
}

TEST(KubeManifest, ImageAndNamespaceOfTheFileChangeOnlyTheHead) {
  const std::string made = manifest_for(kManifestText, image_of_file(), kManifestNamespace);
  EXPECT_EQ(without_head(made), without_head(kManifestText));
}

TEST(KubeManifest, HeadHasVersionAndCommandButNoAdviceToEdit) {
  const std::string made = manifest_for(kManifestText, kImage, "team-a");
  EXPECT_THAT(made, StartsWith(fmt::format("# gpuyard {} ", kVersion)));
  const std::string command =
      fmt::format("gpuyard kube manifest --image {} --namespace team-a", kImage);
  EXPECT_THAT(made, HasSubstr("\n#   " + command + "\n#\n# It needs Kubernetes 1.30"));
  EXPECT_THAT(made, Not(HasSubstr("Set your registry")));
  EXPECT_THAT(made, Not(HasSubstr("render.sh")));
}

TEST(KubeManifest, EachContainerHasTheImage) {
  const std::string made = manifest_for(kManifestText, kImage, kManifestNamespace);
  std::vector<std::string> images;
  for (const std::string& line : lines_in(made)) {
    if (trim(line).starts_with("image:")) images.emplace_back(trim(line));
  }
  EXPECT_THAT(images, SizeIs(4));
  EXPECT_THAT(images, Each(fmt::format(R"(image: "{}")", kImage)));
  EXPECT_THAT(without_head(made), Not(HasSubstr('"' + image_of_file() + '"')));
}

TEST(KubeManifest, NamespaceIsReplacedWhereItIsUsedAndNowhereElse) {
  const auto before = lines_in(without_head(kManifestText));
  const auto after = lines_in(without_head(manifest_for(kManifestText, image_of_file(), "team-a")));
  ASSERT_EQ(before.size(), after.size());
  std::map<std::string, int> changed;
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].find_first_not_of(' '), after[i].find_first_not_of(' ')) << after[i];
    if (before[i] != after[i]) ++changed[std::string(trim(after[i]))];
  }
  EXPECT_EQ(
      changed,
      (std::map<std::string, int>{
          {"name: \"team-a\"", 1},
          {"namespace: \"team-a\"", 6},
          {"name: team-a-gpuyard-agent", 6},
          {"name: team-a-gpuyard-agent-events", 2},
          {"name: team-a-gpuyard-agent-nodes", 2},
          {"name: team-a-gpuyard-agent-rules", 2},
          {"policyName: team-a-gpuyard-agent-events", 1},
          {"policyName: team-a-gpuyard-agent-nodes", 1},
          {"policyName: team-a-gpuyard-agent-rules", 1},
          {"expression: request.userInfo.username == 'system:serviceaccount:team-a:gpuyard'", 3},
      }));
}

// YAML reads 123 without quotes as a number, which Kubernetes refuses.
TEST(KubeManifest, NumericNamespaceStaysText) {
  const std::string made = manifest_for(kManifestText, kImage, "123");
  EXPECT_THAT(made, HasSubstr("  namespace: \"123\"\n"));
  EXPECT_THAT(made, Not(HasSubstr("namespace: 123\n")));
}

TEST(KubeManifest, ImageIsAccepted) {
  const std::string digest = fmt::format("gpuyard@sha256:{}", std::string(64, 'a'));
  for (const std::string& image :
       {std::string("gpuyard"), std::string(kImage), std::string("REGISTRY/gpuyard:TAG"),
        std::string("10.0.0.1/lab_1/gpu-yard:v1.0_rc-2"), digest, std::string(255, 'a')}) {
    EXPECT_TRUE(check_image(image)) << image;
  }
}

TEST(KubeManifest, ImageThatCouldChangeTheYamlIsRefused) {
  for (const std::string& image :
       {std::string("a b"), std::string("a\n- b"), std::string("a\r"), std::string("a\tb"),
        std::string("a\"b"), std::string("a\"\nb: \"c"), std::string("a'b"), std::string("a\\"),
        std::string("a#b"), std::string("{a}"), std::string("[a]"), std::string("&a"),
        std::string("*a"), std::string("!a"), std::string("$(a)"), std::string("a\xC2\x85"),
        std::string("a\0b", 3), std::string(256, 'a')}) {
    const auto checked = check_image(image);
    ASSERT_FALSE(checked) << image;
    EXPECT_EQ(checked.error().code, Errc::invalid);
    EXPECT_THAT(checked.error().message, StartsWith("--image: expected an image such as "));
  }
}

TEST(KubeManifest, MistypedImageIsRefused) {
  for (const char* image : {"-n", "--namespace", "/gpuyard", ":1", "@sha256:00",
                            "gpuyard:", "gpuyard/", "gpuyard@", "."}) {
    EXPECT_FALSE(check_image(image)) << image;
  }
}

TEST(KubeManifest, MissingImageIsExplainedWithACommandThatWorks) {
  const auto checked = check_image("");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "kube manifest needs --image NAME");
  EXPECT_THAT(checked.error().cause, HasSubstr("registry"));
  const std::vector<std::string> words = shell_words(checked.error().hint);
  ASSERT_THAT(words, SizeIs(5));
  EXPECT_EQ(words[3], "--image");
  EXPECT_TRUE(check_image(words[4])) << words[4];
}

TEST(KubeManifest, NamespaceIsALabelOfTheDns) {
  for (const std::string& good : {std::string("gpuyard"), std::string("a"), std::string("123"),
                                  std::string("team-a"), std::string(63, 'n')}) {
    EXPECT_TRUE(check_namespace(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("Team"), std::string("a_b"), std::string("a.b"),
        std::string("-a"), std::string("a-"), std::string("a b"), std::string("a\n"),
        std::string("a\"b"), std::string("a'b"), std::string("a:b"), std::string("\xC3\xA4"),
        std::string(64, 'n')}) {
    const auto checked = check_namespace(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Errc::invalid);
  }
}

TEST(KubeManifest, CommandTakesImageAndNamespaceAndNoCluster) {
  const auto verb = verb_of<KubeVerb>({"kube", "manifest", "--image", "a", "--namespace", "b"});
  EXPECT_EQ(verb.action, KubeVerb::Action::manifest);
  EXPECT_EQ(verb.image, "a");
  EXPECT_EQ(verb.name_space, "b");
  EXPECT_EQ(verb_of<KubeVerb>({"kube", "manifest"}).name_space, kManifestNamespace);
  EXPECT_EQ(end_of({"kube", "manifest", "--image", "a", "--kubeconfig", "b"}).code, 2);
  EXPECT_EQ(end_of({"kube", "manifest", "--image", "a", "--condition", "b"}).code, 2);
}

}  // namespace
}  // namespace gpuyard::cli::kube
