#include "net/http_client.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "net/root_certificates.h"
#include "net/socket_address.h"

namespace chimere::net {
namespace {

using Clock = std::chrono::steady_clock;

bool start_curl() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

/// The certificates to trust, if libcurl would not find this system's; empty: it does.
std::string certificates() {
  const curl_version_info_data* const about = curl_version_info(CURLVERSION_NOW);
  return other_certificate_file(about->cainfo, usual_certificate_files());
}

bool success(long status) { return status >= 200 && status < 300; }

bool allows(const Policy& policy, const IpAddress& address) {
  return policy.any_address || scope_of(address) == AddressScope::kPublic ||
         std::ranges::find(policy.allowed, address) != policy.allowed.end();
}

Error forbidden(const std::string& host, const IpAddress& address) {
  const std::string text = to_string(address);
  return invalid_argument(
      (host == text ? "The address " + text + " is "
                    : "The host " + host + " has the address " + text + ", which is ") +
      scope_name(scope_of(address)) + "; only public addresses may be contacted from here.");
}

Error too_large(const char* what, int64_t limit) {
  return invalid_data("The response has " + std::string(what) + " of more than " +
                      std::to_string(limit) + " bytes, the limit here.");
}

/// State shared by the callbacks of one transfer.
struct Transfer {
  const HttpGet* request = nullptr;
  const HttpPost* post = nullptr;
  const Policy* policy = nullptr;
  const HttpClient* client = nullptr;
  CURL* handle = nullptr;
  std::string host;
  HttpResponse response;
  Status failure;
  int64_t header_bytes = 0;
  int64_t body_bytes = 0;
  bool started = false;
  bool cancelled = false;
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.header_bytes += static_cast<int64_t>(size);
  if (transfer.header_bytes > transfer.policy->max_header_bytes) {
    transfer.failure = too_large("headers", transfer.policy->max_header_bytes);
    return 0;
  }
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) transfer.response.headers.clear();
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  std::string_view value = line.substr(colon + 1);
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!value.empty() && is_space(value.front())) value.remove_prefix(1);
  while (!value.empty() && is_space(value.back())) value.remove_suffix(1);
  transfer.response.headers[lower_case(std::string(line.substr(0, colon)))] = value;
  return size;
}

bool begin_body(Transfer& transfer) {
  if (transfer.started) return true;
  transfer.started = true;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &transfer.response.status);
  if (!success(transfer.response.status) || !transfer.request->on_start) return true;
  transfer.failure = transfer.request->on_start(transfer.response);
  return transfer.failure.ok();
}

/// Counts a piece of a body against the limits.
Status count_body(Transfer& transfer, size_t size) {
  const Policy& policy = *transfer.policy;
  transfer.body_bytes += static_cast<int64_t>(size);
  if (policy.max_body_bytes > 0 && transfer.body_bytes > policy.max_body_bytes) {
    return too_large("a body", policy.max_body_bytes);
  }
  constexpr int64_t kRatioFrom = 1 << 20;
  if (!policy.decompress || transfer.body_bytes < kRatioFrom) return {};
  curl_off_t received = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_SIZE_DOWNLOAD_T, &received);
  const double most = policy.max_ratio * static_cast<double>(std::max<curl_off_t>(received, 1));
  if (static_cast<double>(transfer.body_bytes) <= most) return {};
  return invalid_data("The compressed response expands beyond the limit of " +
                      std::to_string(static_cast<int64_t>(policy.max_ratio)) + " times its size.");
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!begin_body(transfer)) return 0;
  transfer.failure = count_body(transfer, size);
  if (!transfer.failure.ok()) return 0;
  if (!success(transfer.response.status)) {
    if (transfer.post != nullptr && transfer.post->on_error_data) {
      transfer.post->on_error_data({data, size});
    }
    return size;
  }
  if (transfer.request->on_data) transfer.failure = transfer.request->on_data({data, size});
  return transfer.failure.ok() ? size : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.cancelled = transfer.client->interrupted();
  return transfer.cancelled ? 1 : 0;
}

/// The last check, on the address that is connected to, whatever led to it.
curl_socket_t open_socket(void* user, curlsocktype, curl_sockaddr* to) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto address = address_of(to->addr);
  if (!address || !allows(*transfer.policy, *address)) {
    transfer.failure = address ? forbidden(transfer.host, *address)
                               : invalid_argument("The host " + transfer.host +
                                                  " has an address that is not an IP address.");
    return CURL_SOCKET_BAD;
  }
  return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/// Retrying cannot help: the host name or its certificate is wrong.
bool is_lasting(CURLcode code) {
  constexpr std::array<CURLcode, 5> kLasting = {
      CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_COULDNT_RESOLVE_HOST,
      CURLE_PEER_FAILED_VERIFICATION, CURLE_COULDNT_CONNECT};
  return std::ranges::find(kLasting, code) != kLasting.end();
}

/// A list of strings that libcurl takes.
class StringList {
 public:
  StringList() = default;
  ~StringList() { curl_slist_free_all(list_); }
  StringList(const StringList&) = delete;
  StringList& operator=(const StringList&) = delete;

  void add(const std::string& text) {
    if (curl_slist* const longer = curl_slist_append(list_, text.c_str())) list_ = longer;
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

long milliseconds(double seconds) { return std::max(1L, static_cast<long>(seconds * 1000)); }

}  // namespace

struct HttpClient::Curl {
  CURL* handle = nullptr;
  std::array<char, CURL_ERROR_SIZE> message{};

  Curl() = default;
  ~Curl() {
    if (handle != nullptr) curl_easy_cleanup(handle);
  }
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;
};

/// One of the requests that a get() leads to.
struct HttpClient::Hop {
  std::string url;
  std::optional<Clock::time_point> deadline;
  std::string redirect;  ///< where the response leads; empty: nowhere
  std::map<std::string, std::string> redirect_headers;  ///< of the responses before

  /// Of the policy's limit, what the deadline leaves; 0: no limit.
  double seconds_left(double limit) const {
    if (!deadline) return limit;
    const double left = std::chrono::duration<double>(*deadline - Clock::now()).count();
    return limit > 0 ? std::min(limit, left) : left;
  }
};

std::string HttpResponse::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

HttpClient::HttpClient(HttpClientOptions options, std::unique_ptr<Curl> curl)
    : options_(std::move(options)), curl_(std::move(curl)) {}

HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::create(HttpClientOptions options) {
  if (!start_curl()) return io_error("The download library (libcurl) cannot be initialised.");
  const auto bad = [](unsigned char c) { return c <= 0x20 || c >= 0x7f; };
  if (std::ranges::any_of(options.token, bad)) {
    return invalid_argument("The token contains characters that are not valid in one.");
  }
  auto curl = std::make_unique<Curl>();
  curl->handle = curl_easy_init();
  if (curl->handle == nullptr) return out_of_memory("There is not enough memory for a download.");
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(options), std::move(curl)));
}

Result<std::vector<IpAddress>> HttpClient::addresses_of(const Url& url) {
  std::vector<IpAddress> addresses;
  if (const auto literal = parse_ip(url.host)) {
    addresses.push_back(*literal);
  } else {
    CHIMERE_TRY(addresses,
                resolve_interruptibly(options_.resolve, url.host, options_.policy.connect_seconds,
                                      [this] { return interrupted(); }));
  }
  // One forbidden address is enough: a name that leads to both is an attempt to get inside.
  for (const IpAddress& address : addresses) {
    if (!allows(options_.policy, address)) return forbidden(url.host, address);
  }
  return addresses;
}

HttpResult HttpClient::send_once(const HttpGet& request, const HttpPost* post, Hop& hop) {
  HttpResult result;
  const Policy& policy = options_.policy;
  const auto url = parse_url(hop.url);
  if (!url) {
    result.status =
        invalid_argument("'" + hop.url.substr(0, 200) + "' is not an http or https address.");
    return result;
  }
  if (hop.deadline && Clock::now() >= *hop.deadline) {
    result.status = io_error("The host " + url->origin() + " took too long to answer.");
    return result;
  }
  CURL* const handle = curl_->handle;
  curl_easy_reset(handle);  // keeps the connection
  StringList pinned;
  if (!policy.any_address) {
    if (url->credentials) {
      result.status = invalid_argument("The address " + url->origin() +
                                       " names a user or password, which is not allowed here.");
      return result;
    }
    const auto addresses = addresses_of(*url);
    if (!addresses.ok()) {
      result.status = addresses.error();
      const auto code = addresses.error().code;
      result.transport = code == Error::Code::kIo || code == Error::Code::kNotFound;
      result.transient = code == Error::Code::kIo;
      return result;
    }
    std::string entry = url->host + ":" + std::to_string(url->port) + ":";
    for (const IpAddress& address : *addresses) {
      if (entry.back() != ':') entry += ',';
      entry += address.is_ipv4() ? to_string(address) : "[" + to_string(address) + "]";
    }
    // A leading + lets the entry time out; without it the handle would keep it for later calls.
    if (!parse_ip(url->host)) pinned.add("+" + entry);
  }
  Transfer transfer;
  transfer.request = &request;
  transfer.post = post;
  transfer.policy = &policy;
  transfer.client = this;
  transfer.handle = handle;
  transfer.host = url->host;
  transfer.response.url = hop.url;
  transfer.response.redirect_headers = hop.redirect_headers;
  StringList headers;
  for (const std::string& h : request.headers) headers.add(h);
  if (!options_.token.empty() && url->origin() == options_.token_origin) {
    headers.add("Authorization: Bearer " + options_.token);
  }
  curl_->message[0] = '\0';
  curl_easy_setopt(handle, CURLOPT_URL, hop.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle, CURLOPT_USERAGENT, options_.user_agent.c_str());
  if (post != nullptr) {
    curl_easy_setopt(handle, CURLOPT_POST, 1L);
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, post->body.data());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(post->body.size()));
  }
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  if (const std::string file = certificates(); !file.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, file.c_str());
  }
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
                   milliseconds(hop.seconds_left(policy.connect_seconds)));
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME,
                   std::max(1L, static_cast<long>(policy.stall_seconds)));
  if (hop.deadline) {
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds(hop.seconds_left(0)));
  }
  if (!policy.any_address || !policy.proxies) {
    curl_easy_setopt(handle, CURLOPT_PROXY, "");
  }
  if (policy.decompress) curl_easy_setopt(handle, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, curl_->message.data());
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  if (!policy.any_address) {
    curl_easy_setopt(handle, CURLOPT_RESOLVE, pinned.get());
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, &transfer);
  }
  const CURLcode code = curl_easy_perform(handle);

  if (code == CURLE_OK) (void)begin_body(transfer);  // a response without a body
  if (const char* next = nullptr;
      curl_easy_getinfo(handle, CURLINFO_REDIRECT_URL, &next) == CURLE_OK && next != nullptr) {
    hop.redirect = next;
  }
  result.response = std::move(transfer.response);
  if (transfer.cancelled) {
    result.status = Error{Error::Code::kCancelled, "The download was stopped."};
  } else if (!transfer.failure.ok()) {
    result.status = std::move(transfer.failure);
  } else if (code != CURLE_OK) {
    const char* why = curl_->message[0] != '\0' ? curl_->message.data() : curl_easy_strerror(code);
    result.status = io_error("The connection to " + url->origin() + " failed: " + why + ".");
    result.transport = true;
    result.transient = !is_lasting(code);
  }
  return result;
}

HttpResult HttpClient::post(const HttpPost& request) {
  Hop hop;
  hop.url = request.url;
  if (options_.policy.total_seconds > 0) {
    hop.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options_.policy.total_seconds));
  }
  const HttpGet common = {request.url, request.headers, request.on_start, request.on_data};
  return send_once(common, &request, hop);
}

HttpResult HttpClient::get(const HttpGet& request) {
  Hop hop;
  hop.url = request.url;
  if (options_.policy.total_seconds > 0) {
    hop.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options_.policy.total_seconds));
  }
  for (int redirects = 0; redirects <= options_.policy.max_redirects; ++redirects) {
    hop.redirect.clear();
    HttpResult result = send_once(request, nullptr, hop);
    const bool redirected = result.response.status >= 300 && result.response.status <= 399;
    if (!result.status.ok() || !redirected) return result;
    for (auto& [name, value] : result.response.headers) hop.redirect_headers[name] = value;
    const std::string to = origin_of(hop.redirect);
    if (to.empty() || (hop.url.starts_with("https:") && !to.starts_with("https:"))) {
      result.status = invalid_data("The host " + origin_of(hop.url) +
                                   " redirects to an address that is not allowed.");
      return result;
    }
    hop.url = hop.redirect;
  }
  HttpResult result;
  result.status = invalid_data("The host " + origin_of(request.url) + " redirects too often.");
  return result;
}

}  // namespace chimere::net
