#include "retrieval/page_fetcher.h"

#include <utility>

#include "net/url.h"

namespace chimere::retrieval {
namespace {

constexpr const char* kAgent = "chimere";

/// The path of an address with its query.
std::string path_of(const std::string& url) {
  const size_t host = url.find("//");
  if (host == std::string::npos) return "/";
  const size_t path = url.find_first_of("/?#", host + 2);
  if (path == std::string::npos || url[path] == '#') return "/";
  const std::string found = url.substr(path, url.find('#', path) - path);
  return found.starts_with('?') ? "/" + found : found;
}

}  // namespace

Result<PageFetcher> PageFetcher::create(FetchOptions options) {
  net::HttpClientOptions client;
  client.policy.allowed = options.allowed;
  client.policy.max_body_bytes = options.most_bytes;
  client.policy.decompress = true;
  client.policy.connect_seconds = 15;
  client.policy.stall_seconds = 20;
  client.policy.total_seconds = options.seconds;
  client.user_agent = kAgent;
  client.interrupted = options.interrupted;
  CHIMERE_TRY(auto created, net::HttpClient::create(std::move(client)));
  return PageFetcher(std::move(created), std::move(options));
}

Result<FetchedPage> PageFetcher::fetch(const std::string& url, int64_t most, long& status) {
  FetchedPage page;
  net::HttpGet request;
  request.url = url;
  request.headers = {
      "Accept: text/html, application/xhtml+xml, text/plain, text/markdown, */*;q=0.5"};
  request.on_data = [&](std::string_view bytes) -> Status {
    if (static_cast<int64_t>(page.bytes.size() + bytes.size()) > most)
      return invalid_data("'" + url + "' has more than " + std::to_string(most) + " bytes.");
    page.bytes += bytes;
    return {};
  };
  const net::HttpResult result = client_->get(request);
  status = result.response.status;
  if (!result.status.ok()) return result.status.error();
  page.url = result.response.url;
  page.media_type = result.response.header("content-type");
  return page;
}

Status PageFetcher::allowed_by_robots(const std::string& url) {
  const std::string origin = net::origin_of(url);
  if (origin.empty())
    return invalid_argument("'" + url.substr(0, 200) + "' is not an http or https address.");
  auto known = robots_.find(origin);
  if (known == robots_.end()) {
    constexpr int64_t kMostRobots = int64_t{1} << 20;
    long status = 0;
    const auto text = fetch(origin + "/robots.txt", kMostRobots, status);
    Result<RobotsRules> rules = RobotsRules();
    if (!text.ok()) {
      rules = text.error();
    } else if (status >= 500) {
      rules = io_error("The host " + origin +
                       " does not say whether its pages may be fetched "
                       "(robots.txt: status " +
                       std::to_string(status) + ").");
    } else if (status >= 200 && status < 300) {
      rules = RobotsRules::parse(text->bytes, kAgent);
    }  // 4xx: the site has no rules
    if (!rules.ok() && rules.error().code == Error::Code::kCancelled) return rules.error();
    known = robots_.emplace(origin, std::move(rules)).first;
  }
  if (!known->second.ok()) return known->second.error();
  if (known->second->allows(path_of(url))) return {};
  return unsupported("The site asks programs not to fetch '" + url + "' (robots.txt).");
}

Result<FetchedPage> PageFetcher::get(const std::string& url) {
  CHIMERE_CHECK_OK(allowed_by_robots(url));
  long status = 0;
  CHIMERE_TRY(FetchedPage page, fetch(url, options_.most_bytes, status));
  if (status == 404 || status == 410) return not_found("There is no page '" + url + "'.");
  if (status < 200 || status >= 300)
    return io_error("'" + url + "' cannot be fetched: status " + std::to_string(status) + ".");
  // A redirect may lead to a page that must not be fetched, on this site or another.
  if (page.url != url) CHIMERE_CHECK_OK(allowed_by_robots(page.url));
  return page;
}

}  // namespace chimere::retrieval
