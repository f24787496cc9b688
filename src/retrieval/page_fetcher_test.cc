#include "retrieval/page_fetcher.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "net/test_server.h"
#include "retrieval/collections.h"
#include "retrieval/robots.h"

namespace chimere::retrieval {
namespace {

using net::response;
using net::TestServer;

bool requests_page(const std::string& request, const std::string& path) {
  return request.starts_with("GET " + path + " ");
}

Result<FetchedPage> fetched(const std::string& url, bool allowed = true) {
  FetchOptions options;
  if (allowed) options.allowed = {*net::parse_ip("127.0.0.1")};
  options.most_bytes = 10'000;
  CHIMERE_TRY(PageFetcher fetcher, PageFetcher::create(std::move(options)));
  return fetcher.get(url);
}

TEST(Robots, LongestRuleDecides) {
  const auto rules = RobotsRules::parse(
      "# rules\nUser-agent: other\nDisallow: /\n\nUser-Agent: *\nDisallow: /private\n"
      "Allow: /private/open\nDisallow: /*.pdf$\nDisallow:\n",
      "chimere");
  EXPECT_TRUE(rules.allows("/"));
  EXPECT_FALSE(rules.allows("/private/x"));
  EXPECT_TRUE(rules.allows("/private/open/x"));
  EXPECT_FALSE(rules.allows("/a/b.pdf"));
  EXPECT_TRUE(rules.allows("/a/b.pdf?x"));
  const auto own = RobotsRules::parse(
      "User-agent: *\nDisallow: /\nUser-agent: Chimere\nUser-agent: x\nDisallow: /no\n", "chimere");
  EXPECT_TRUE(own.allows("/yes"));
  EXPECT_FALSE(own.allows("/no"));
  EXPECT_TRUE(RobotsRules::parse("nonsense", "chimere").allows("/"));
  const auto stars = RobotsRules::parse("User-agent: *\nDisallow: /a*b*c*d*e*f\n", "x");
  EXPECT_TRUE(stars.allows("/" + std::string(100'000, 'a')));
}

TEST(PageFetcher, FetchesWhatRobotsAllow) {
  TestServer server([](const std::string& request) {
    if (requests_page(request, "/robots.txt"))
      return response(200, "", "User-agent: *\nDisallow: /secret\n");
    if (requests_page(request, "/moved")) return response(302, "Location: /secret\r\n", "");
    if (requests_page(request, "/gone")) return response(404, "", "");
    if (requests_page(request, "/large")) return response(200, "", std::string(20'000, 'x'));
    return response(200, "Content-Type: text/html; charset=latin1\r\n", "<p>caf\xe9</p>");
  });
  const auto page = fetched(server.url("127.0.0.1", "/page"));
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(page->media_type, "text/html; charset=latin1");
  EXPECT_EQ(page->bytes, "<p>caf\xe9</p>");
  const auto code = [&](const std::string& path) {
    const auto result = fetched(server.url("127.0.0.1", path));
    return result.ok() ? -1 : static_cast<int>(result.error().code);
  };
  EXPECT_EQ(code("/secret/x"), static_cast<int>(Error::Code::kUnsupported));
  EXPECT_EQ(code("/moved"), static_cast<int>(Error::Code::kUnsupported));
  EXPECT_EQ(code("/gone"), static_cast<int>(Error::Code::kNotFound));
  EXPECT_EQ(code("/large"), static_cast<int>(Error::Code::kInvalidData));
  const size_t before = server.requests().size();
  const auto inside = fetched(server.url("127.0.0.1", "/page"), false);
  ASSERT_FALSE(inside.ok());
  EXPECT_EQ(inside.error().code, Error::Code::kInvalidArgument);
  EXPECT_EQ(server.requests().size(), before);
}

TEST(PageFetcher, PagesAreSourcesOfCollections) {
  std::string text = "<html><body><main><h1>Harbour</h1><p>The ferry leaves at nine.</p></main>";
  bool broken = false;
  TestServer server([&](const std::string& request) {
    if (broken) return response(503, "", "");
    if (requests_page(request, "/robots.txt")) return response(404, "", "");
    return response(200, "Content-Type: text/html\r\n", text);
  });
  const std::string folder = testing::TempDir() + "page_sources";
  std::filesystem::remove_all(folder);
  Collections collections(folder, nullptr, nullptr);
  const CollectionId id = {.name = "web", .owner = ""};
  const Source source = {Source::Kind::kUrl, server.url("127.0.0.1", "/harbour")};
  UpdateOptions options;
  auto report = collections.add(id, std::span(&source, 1), options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->n_skipped, 1);  // not a public address
  EXPECT_TRUE(server.requests().empty());
  options.allowed_addresses = {"127.0.0.1"};
  report = collections.update(id, options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->added, 1);
  auto found = collections.search(id, "ferry");
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->passages.size(), 1U);
  EXPECT_EQ(found->passages[0].document, source.place);
  EXPECT_EQ(found->passages[0].heading, "Harbour");
  report = collections.update(id, options);
  EXPECT_EQ(report->unchanged, 1);
  text = "<html><body><main><h1>Harbour</h1><p>The boat leaves at ten.</p></main>";
  report = collections.update(id, options);
  EXPECT_EQ(report->changed, 1);
  EXPECT_EQ(collections.search(id, "boat")->passages.size(), 1U);
  broken = true;
  report = collections.update(id, options);
  EXPECT_EQ(report->n_skipped, 1);
  EXPECT_EQ(collections.search(id, "boat")->passages.size(), 1U);
  const Source wrong = {Source::Kind::kUrl, "ftp://x/"};
  EXPECT_FALSE(collections.add(id, std::span(&wrong, 1), options).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace chimere::retrieval
