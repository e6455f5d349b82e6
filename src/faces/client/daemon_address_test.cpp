#include "faces/client/daemon_address.h"

#include <sys/stat.h>

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"
#include "core/auth/token.h"
#include "faces/client/ssh.h"

namespace gpuyard::client {
namespace {

using testing::HasSubstr;

TEST(SshUrl, UserHostPortAndProgramPathAreParsed) {
  const auto all = parse_ssh_url("ssh://alice@lab.example.org:2222/opt/gpuyard/bin/gpuyard");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(*all, (SshHost{"alice", "lab.example.org", 2222, "/opt/gpuyard/bin/gpuyard"}));
  EXPECT_EQ(all->ssh_arguments(), "-p 2222 alice@lab.example.org");
  const auto least = parse_ssh_url("ssh://lab");
  ASSERT_TRUE(least);
  EXPECT_EQ(*least, (SshHost{"", "lab", 0, ""}));
  EXPECT_EQ(least->ssh_arguments(), "lab");
}

TEST(SshUrl, AnIpv6AddressStandsInBrackets) {
  const auto six = parse_ssh_url("ssh://alice@[fe80::1]:22/");
  ASSERT_TRUE(six) << six.error().message;
  EXPECT_EQ(*six, (SshHost{"alice", "fe80::1", 22, ""}));
  EXPECT_EQ(six->url(), "ssh://alice@[fe80::1]:22");
  EXPECT_FALSE(parse_ssh_url("ssh://fe80::1"));
}

TEST(SshUrl, IsReadAsItIsWritten) {
  for (const char* url : {"ssh://lab", "ssh://a.b@lab:1", "ssh://[::1]", "ssh://lab/usr/bin/g",
                          "ssh://alice@192.0.2.7:65535/home/alice/build/gpuyard"}) {
    const auto host = parse_ssh_url(url);
    ASSERT_TRUE(host) << url;
    EXPECT_EQ(host->url(), url);
  }
}

TEST(SshUrl, ProgramMayBeInTheHomeThere) {
  const auto lab = parse_ssh_url("ssh://lab/~/bin/gpuyard");
  ASSERT_TRUE(lab) << lab.error().message;
  EXPECT_EQ(lab->program, "~/bin/gpuyard");
  EXPECT_EQ(lab->url(), "ssh://lab/~/bin/gpuyard");
  for (const char* url : {"ssh://lab/~", "ssh://lab/~/", "ssh://lab/~bob/gpuyard",
                          "ssh://lab/a/~/gpuyard", "ssh://lab/~/~/gpuyard"}) {
    EXPECT_FALSE(parse_ssh_url(url)) << url;
  }
}

TEST(SshUrl, UserMayBeOfADomain) {
  const auto mail = parse_ssh_url("ssh://user@corp.example.org@lab");
  ASSERT_TRUE(mail) << mail.error().message;
  EXPECT_EQ(mail->user, "user@corp.example.org");
  EXPECT_EQ(mail->host, "lab");
  EXPECT_EQ(mail->url(), "ssh://user@corp.example.org@lab");
  const auto domain = parse_ssh_url("ssh://CORP\\alice@lab:22");
  ASSERT_TRUE(domain) << domain.error().message;
  EXPECT_EQ(domain->user, "CORP\\alice");
  EXPECT_EQ(domain->url(), "ssh://CORP\\alice@lab:22");
  EXPECT_EQ(domain->ssh_arguments(), "-p 22 'CORP\\alice@lab'");
  for (const char* url : {"ssh://CORP\\@lab", "ssh://\\alice@lab", "ssh://A\\B\\c@lab",
                          "ssh://CORP\\-l@lab", "ssh://CORP\\$x@lab", "ssh://a\\;x@lab"}) {
    EXPECT_FALSE(parse_ssh_url(url)) << url;
  }
}

TEST(SshUrl, OptionsAndShellCharactersAreRefused) {
  for (const char* url : {"ssh://-oProxyCommand=x",
                          "ssh://-l@lab",
                          "ssh://alice@-lab",
                          "ssh://la b",
                          "ssh://lab\n",
                          "ssh://lab\x01",
                          "ssh://$(x)",
                          "ssh://`x`",
                          "ssh://la'b",
                          "ssh://lab;x",
                          "ssh://a%h@lab",
                          "ssh://lab%h",
                          "ssh://",
                          "ssh://@lab",
                          "ssh://alice@",
                          "ssh://alice:secret@lab",
                          "ssh://lab:0",
                          "ssh://lab:65536",
                          "ssh://lab:ssh",
                          "ssh://[-x]",
                          "ssh://[::1",
                          "ssh://[::1]x",
                          "ssh://lab/bin/$(x)",
                          "ssh://lab/bin/a b",
                          "ssh://lab/bin/",
                          "ssh://lab/bin;x",
                          "ssh:lab",
                          "ssh://b\xc3\xa4"}) {
    const auto host = parse_ssh_url(url);
    ASSERT_FALSE(host) << url;
    EXPECT_EQ(host.error().code, Errc::invalid) << url;
  }
  EXPECT_FALSE(parse_ssh_url("ssh://" + std::string(256, 'a')));
  EXPECT_FALSE(parse_ssh_url("ssh://lab/" + std::string(1024, 'a')));
  EXPECT_FALSE(parse_ssh_url(std::string_view("ssh://la\0b", 10)));
}

class HostsFile : public testing::Test {
 protected:
  Result<std::string> address(std::string_view host) {
    return resolve_address(host, directory_.in("hosts.toml"));
  }
  std::string complaint(std::string_view host) {
    const auto found = address(host);
    EXPECT_FALSE(found) << host;
    return found ? "" : found.error().text();
  }
  void write(std::string_view text) { directory_.write("hosts.toml", text); }

  ScratchDirectory directory_;
};

TEST_F(HostsFile, GivesAHostAName) {
  write("[lab]\nurl = \"ssh://alice@lab:22/opt/gpuyard\"\n[here]\nurl = \"unix:///run/x.sock\"\n");
  EXPECT_EQ(*address("lab"), "ssh://alice@lab:22/opt/gpuyard");
  EXPECT_EQ(*address("here"), "/run/x.sock");
}

TEST_F(HostsFile, IsNotNeededForAUrl) {
  EXPECT_EQ(*address("ssh://lab"), "ssh://lab");
  EXPECT_EQ(*address("unix:///run/gpuyard/gpuyard.sock"), "/run/gpuyard/gpuyard.sock");
  for (const char* wrong :
       {"unix://relative.sock", "http://lab:9410", "lab:9410", "/run/x.sock", "-lab", "a b", ""}) {
    EXPECT_FALSE(address(wrong)) << wrong;
  }
}

TEST_F(HostsFile, UnknownNameSuggestsSshUrl) {
  EXPECT_THAT(complaint("lab"), HasSubstr("-H ssh://lab"));
  write("[lab]\nurl = \"ssh://lab\"\n");
  EXPECT_THAT(complaint("bal"), HasSubstr("-H ssh://bal"));
  EXPECT_EQ(address("bal").error().code, Errc::not_found);
}

TEST_F(HostsFile, MistakeIsReportedWithLine) {
  const std::string at = directory_.in("hosts.toml");
  write("[lab]\nurl = \"ssh://lab\"\npassword = \"x\"\n");
  EXPECT_THAT(complaint("lab"), HasSubstr(at + ":3: lab.password"));
  write("[lab]\n");
  EXPECT_THAT(complaint("lab"), HasSubstr(at + ":1: lab has no url"));
  write("[lab\n");
  EXPECT_THAT(complaint("lab"), HasSubstr(at + ":"));
  write("[lab]\nurl = \"ssh://-lab\"\n");
  EXPECT_THAT(complaint("lab"), HasSubstr(at + ": lab: "));
  write("[lab]\nurl = \"lab2\"\n[lab2]\nurl = \"lab\"\n");
  EXPECT_THAT(complaint("lab"), HasSubstr("got \"lab2\"")) << "names do not lead to names";
}

// The next read of the hosts file would refuse these entries.
TEST(CheckHosts, ConflictingOrIncompleteEntriesAreRefused) {
  const std::string pin = "pin = \"sha256//" + std::string(43, 'A') + "=\"\n";
  const std::string one = "[dgx1]\nurl = \"https://LAB\"\n" + pin;
  EXPECT_TRUE(check_hosts(one, "f"));
  EXPECT_TRUE(check_hosts(one + "[lab]\nurl = \"https://lab.:9411\"\n" + pin, "f"));
  EXPECT_TRUE(check_hosts(one + "[other]\nurl = \"https://lab:9412\"\n", "f"));
  for (const char* wrong : {"[lab]\nurl = \"https://lab.:9411\"\n", "[lab]\n", "[dgx1]\n"}) {
    const auto checked = check_hosts(one + wrong, "f");
    ASSERT_FALSE(checked) << wrong;
    EXPECT_EQ(checked.error().code, Errc::invalid);
  }
}

TEST(WithoutHost, KeepsEveryOtherLine) {
  const std::string lab = "# the lab\n[lab]\nurl = \"ssh://lab\"\n";
  const std::string dgx = "\n[dgx1]  # new\nurl = \"https://dgx1\"\nca_file = \"/c\"\n";
  const std::string six = "\n# six\n[\"n6.lab\"]\nurl = \"ssh://n6\"\n";
  EXPECT_EQ(*remove_host(lab + dgx + six, "dgx1", "f"), lab + six);
  EXPECT_EQ(*remove_host(lab + dgx, "dgx1", "f"), lab);
  EXPECT_EQ(*remove_host(lab + dgx + six, "n6.lab", "f"), lab + dgx + "\n# six\n");
  EXPECT_EQ(*remove_host("lab = {url = \"ssh://lab\"}\n" + dgx, "lab", "f"), dgx);
}

TEST(WithoutHost, RefusesAnUnknownNameAndMixedLines) {
  const std::string lab = "[lab]\nurl = \"ssh://lab\"\n";
  EXPECT_EQ(remove_host(lab, "bal", "f").error().code, Errc::not_found);
  EXPECT_EQ(remove_host(lab + "x = 1\n", "lab", "f").error().code, Errc::invalid);
  const std::string mixed = "a.url = \"https://a\"\nb.url = \"https://b\"\na.ca_file = \"/c\"\n";
  EXPECT_EQ(remove_host(mixed, "a", "f").error().code, Errc::unsupported);
}

TEST(Https, UrlHasHostAndDefaultPort) {
  EXPECT_EQ(*resolve_address("https://lab", "/nowhere"), "https://lab:9411");
  EXPECT_EQ(*resolve_address("https://lab:443/", "/nowhere"), "https://lab:443");
  EXPECT_EQ(*resolve_address("https://[::1]:9411", "/nowhere"), "https://[::1]:9411");
  for (const char* wrong : {"https://", "https://lab:0", "https://lab/x", "https://gpy_x@lab",
                            "https://-lab", "https://lab:9411?x", "http://lab:9410"}) {
    const auto address = resolve_address(wrong, "/nowhere");
    ASSERT_FALSE(address) << wrong;
    EXPECT_EQ(address.error().code, Errc::invalid);
  }
}

TEST(Https, HostIsNormalised) {
  EXPECT_EQ(*resolve_address("https://LAB.Example.ORG.", "/nowhere"),
            "https://lab.example.org:9411");
  for (const char* wrong : {"https://.", "https://lab.."}) {
    EXPECT_FALSE(resolve_address(wrong, "/nowhere")) << wrong;
  }
}

class HttpsKeysTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    std::ofstream(place_.path() + "/" + name) << text;
    ::chmod((place_.path() + "/" + name).c_str(), mode);
  }
  Result<http::Endpoint> called(Credentials keys = {},
                                const std::string& url = "https://lab:9411") {
    keys.hosts_file = place_.path() + "/hosts.toml";
    return parse_daemon_address(url, keys);
  }
  std::string complaint(const Credentials& keys = {}) {
    const auto daemon = called(keys);
    EXPECT_FALSE(daemon);
    return daemon ? "" : daemon.error().text();
  }

  ScratchDirectory place_;
  const std::string token_ = auth::TokenText::draw()->text();
  const std::string pin_ = "sha256//" + std::string(43, 'A') + "=";
};

TEST_F(HttpsKeysTest, PinAndTokenComeFromMatchingEntry) {
  write("token", token_ + "\n");
  write("hosts.toml", fmt::format("[dgx1]\nurl = \"https://lab\"\npin = \"{}\"\ntoken_file = "
                                  "\"{}/token\"\n",
                                  pin_, place_.path()));
  const auto daemon = called();
  ASSERT_TRUE(daemon) << daemon.error().message;
  EXPECT_EQ(daemon->text(), "https://lab:9411");
  EXPECT_TRUE(daemon->is_remote());
  EXPECT_EQ(daemon->tls->origin.pin, pin_);
  EXPECT_EQ(daemon->tls->token, token_);
}

TEST_F(HttpsKeysTest, MissingFileGivesNoTokenAndNoPin) {
  const auto daemon = called();
  ASSERT_TRUE(daemon) << daemon.error().message;
  EXPECT_EQ(daemon->tls->token, "");
  EXPECT_EQ(daemon->tls->origin.pin, "");
  EXPECT_TRUE(daemon->tls->origin.tls);
}

TEST_F(HttpsKeysTest, EnvironmentTokenIsChecked) {
  EXPECT_EQ(called({.token = token_})->tls->token, token_);
  std::string wrong = token_;
  std::swap(wrong[20], wrong[21]);
  if (wrong != token_) {
    EXPECT_THAT(complaint({.token = wrong}), HasSubstr("GPUYARD_TOKEN: mistyped token"));
  }
  EXPECT_THAT(complaint({.token = token_, .token_file = "/x"}), HasSubstr("cannot be used with"));
  for (const char* relative : {"token", "{}/token", "./{}"}) {
    EXPECT_THAT(complaint({.token_file = relative}),
                HasSubstr(fmt::format("GPUYARD_TOKEN_FILE: \"{}\"", relative)));
  }
}

TEST_F(HttpsKeysTest, EntriesOfOneHostThatDifferAreRefused) {
  const std::string one = fmt::format("[dgx1]\nurl = \"https://LAB\"\npin = \"{}\"\n", pin_);
  const std::string both = one + "[lab]\nurl = \"https://lab.:9411\"\n";
  write("hosts.toml", fmt::format("{}pin = \"{}\"\n", both, pin_));
  const auto daemon = called();
  ASSERT_TRUE(daemon) << daemon.error().message;
  EXPECT_EQ(daemon->tls->origin.pin, pin_);
  for (const std::string& differs : {std::string(), std::string("token_file = \"/t\"\n"),
                                     fmt::format("pin = \"{}\"\nca_file = \"/c\"\n", pin_)}) {
    write("hosts.toml", both + differs);
    EXPECT_THAT(complaint(), HasSubstr("dgx1 and lab are the same host, https://lab:9411, but "
                                       "differ in pin"));
    EXPECT_TRUE(called({}, "https://another"));
  }
}

TEST_F(HttpsKeysTest, HostsTomlNamesTheCaFile) {
  write("hosts.toml", "[dgx1]\nurl = \"https://lab\"\nca_file = \"/etc/our-ca.pem\"\n");
  const auto daemon = called();
  ASSERT_TRUE(daemon) << daemon.error().message;
  EXPECT_EQ(daemon->tls->origin.ca_file, "/etc/our-ca.pem");
}

TEST_F(HttpsKeysTest, SingleHostTokenIsNotSentToMany) {
  const std::string own = auth::TokenText::draw()->text();
  write("own", own);
  write("shared", token_);
  write("lab.token", token_);
  const auto token_of = [&](const Credentials& keys) {
    const auto daemon = called(keys);
    return daemon ? daemon->tls->token : daemon.error().message;
  };
  const std::string shared = place_.path() + "/shared";
  const std::string each = place_.path() + "/{}.token";
  EXPECT_EQ(token_of({.token = token_, .many_hosts = true}), "");
  EXPECT_EQ(token_of({.token_file = shared, .many_hosts = true}), "");
  EXPECT_EQ(token_of({.token_file = each, .many_hosts = true}), token_);
  EXPECT_EQ(token_of({.token_file = each}), token_);
  write("hosts.toml",
        fmt::format("[dgx1]\nurl = \"https://lab\"\ntoken_file = \"{}/own\"\n", place_.path()));
  EXPECT_EQ(token_of({.token = token_, .many_hosts = true}), own);
  EXPECT_EQ(token_of({.token_file = shared, .many_hosts = true}), own);
  EXPECT_EQ(token_of({.token = token_}), token_) << "one host that is named";
}

TEST_F(HttpsKeysTest, ReadableTokenFileIsRefused) {
  write("token", token_, 0640);
  const std::string why = complaint({.token_file = place_.path() + "/token"});
  EXPECT_THAT(why, HasSubstr("is readable by others"));
  EXPECT_THAT(why, HasSubstr("chmod 600"));
  EXPECT_THAT(complaint({.token_file = place_.path() + "/none"}), HasSubstr("No such file"));
}

TEST_F(HttpsKeysTest, TildeInTheFileIsTheHomeDirectory) {
  write("token", token_ + "\n");
  write("hosts.toml", "[dgx1]\nurl = \"https://lab\"\ntoken_file = \"~/token\"\n");
  EXPECT_EQ(called({.home = place_.path()})->tls->token, token_);
  EXPECT_THAT(complaint(),
              HasSubstr("hosts.toml: dgx1.token_file: \"~/token\": no home directory"));
  write("hosts.toml", "[dgx1]\nurl = \"https://lab\"\ntoken_file = \"token\"\n");
  EXPECT_THAT(complaint({.home = place_.path()}),
              HasSubstr("hosts.toml: dgx1.token_file: \"token\" is not an absolute path"));
}

TEST_F(HttpsKeysTest, InvalidPinOrPinForSshIsError) {
  write("hosts.toml", "[dgx1]\nurl = \"https://lab\"\npin = \"sha256//x\"\n");
  EXPECT_THAT(complaint(), HasSubstr("gpuyard tls show"));
  write("hosts.toml", "[dgx1]\nurl = \"ssh://lab\"\npin = \"" + pin_ + "\"\n");
  EXPECT_THAT(complaint(), HasSubstr("pin, ca_file and token_file need an https:// url"));
}

TEST(DaemonCalled, OnlySshUrlIsTunneled) {
  const auto far = parse_daemon_address("ssh://alice@lab");
  ASSERT_TRUE(far) << far.error().message;
  EXPECT_EQ(far->kind, http::Endpoint::Kind::tunnel);
  EXPECT_EQ(far->text(), "ssh://alice@lab");
  EXPECT_EQ(parse_daemon_address("/run/x.sock")->kind, http::Endpoint::Kind::unix_socket);
  EXPECT_EQ(parse_daemon_address("127.0.0.1:9410")->kind, http::Endpoint::Kind::tcp);
}

TEST(ExplainSsh, FailuresHaveCauseAndHint) {
  const SshHost host{"alice", "lab", 0, ""};
  const auto said = [&](int status, std::string words) {
    return explain_ssh(host, {.status = status, .stderr_tail = std::move(words)});
  };
  const Error refused = said(255, "alice@lab: Permission denied (publickey,password).");
  EXPECT_EQ(refused.code, Errc::denied);
  EXPECT_THAT(refused.cause, HasSubstr("(publickey,password). gpuyard does not ask for passwords"));
  EXPECT_THAT(refused.hint, HasSubstr("ssh-copy-id alice@lab"));
  EXPECT_THAT(said(255, "Host key verification failed.").hint, HasSubstr("ssh alice@lab  # "));
  EXPECT_THAT(said(255,
                   "Host key for lab has changed and you have requested strict checking.; "
                   "Host key verification failed.")
                  .message,
              HasSubstr("its host key has changed"));
  EXPECT_EQ(said(255, "ssh: Could not resolve hostname lab: Name or service not known").code,
            Errc::unavailable);
  EXPECT_THAT(said(255, "something new").hint, HasSubstr("ssh alice@lab true"));
  EXPECT_THAT(said(127, "sh: 1: gpuyard: not found").cause, HasSubstr("hosts.toml"));
  EXPECT_THAT(said(1, "gpuyard: Command not found.").cause, HasSubstr("hosts.toml")) << "csh";
  EXPECT_EQ(said(2, "gpuyard: `gpuyard` has no verb dial-stdio").code, Errc::unsupported);
  EXPECT_THAT(said(kStartFailedExitCode, "gpuyard: starting ssh: No such file or directory").hint,
              HasSubstr("openssh-client"));
  EXPECT_EQ(said(5, "gpuyard: no daemon runs here").text(),
            "ssh://alice@lab: gpuyard: no daemon runs here");
  EXPECT_EQ(explain_ssh(host, {.timed_out = true}).code, Errc::timed_out);
  EXPECT_EQ(explain_ssh(host, {}).message, "ssh://alice@lab: the connection was closed");
}

TEST(IsElsewhere, SshUrlIsRemoteAndSocketPathLocal) {
  EXPECT_TRUE(is_remote_address("ssh://lab"));
  EXPECT_FALSE(is_remote_address("/run/gpuyard/gpuyard.sock"));
  EXPECT_TRUE(mentions_remote_address(explain_ssh({"", "lab", 0, ""}, {}).message));
  EXPECT_FALSE(mentions_remote_address("nothing answers at /run/x.sock"));
}

}  // namespace
}  // namespace gpuyard::client
