#include "hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace chimere::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr long kConnectSeconds = 30;
constexpr long kStallSeconds = 60;  ///< without receiving a byte

bool start_curl() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool success(long status) { return status >= 200 && status < 300; }

/// State shared by the callbacks of one transfer.
struct Transfer {
  const HttpGet* request = nullptr;
  const std::function<bool()>* interrupted = nullptr;
  CURL* handle = nullptr;
  HttpResponse response;
  Status failure;
  bool started = false;
  bool cancelled = false;
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) transfer.response.headers.clear();
  const size_t colon = line.find(':');
  constexpr size_t kMaxHeaders = 200;
  if (colon == std::string_view::npos || transfer.response.headers.size() > kMaxHeaders)
    return size;
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

size_t on_body(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!begin_body(transfer)) return 0;
  if (!success(transfer.response.status)) return size;  // ignore the bodies of errors and redirects
  transfer.failure = transfer.request->on_data({data, size});
  return transfer.failure.ok() ? size : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.cancelled = (*transfer.interrupted)();
  return transfer.cancelled ? 1 : 0;
}

/// Retrying cannot help: the host name or its certificate is wrong.
bool is_lasting(CURLcode code) {
  constexpr std::array<CURLcode, 5> kLasting = {
      CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_COULDNT_RESOLVE_HOST,
      CURLE_PEER_FAILED_VERIFICATION, CURLE_COULDNT_CONNECT};
  return std::ranges::find(kLasting, code) != kLasting.end();
}

}  // namespace

struct HttpClient::Curl {
  CURL* handle = nullptr;
  std::array<char, CURL_ERROR_SIZE> message{};
};

std::string HttpResponse::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

std::string origin_of(const std::string& url) {
  CURLU* parsed = curl_url();
  std::string origin;
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    std::string out;
    if (curl_url_get(parsed, which, &text, CURLU_DEFAULT_PORT) == CURLUE_OK) out = text;
    curl_free(text);
    return lower_case(out);
  };
  if (curl_url_set(parsed, CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK) {
    const std::string scheme = part(CURLUPART_SCHEME);
    const std::string host = part(CURLUPART_HOST);
    if ((scheme == "http" || scheme == "https") && !host.empty()) {
      origin = scheme + "://" + host + ":" + part(CURLUPART_PORT);
    }
  }
  curl_url_cleanup(parsed);
  return origin;
}

HttpClient::HttpClient(std::string origin, std::string token, std::function<bool()> interrupted)
    : curl_(std::make_unique<Curl>()),
      origin_(std::move(origin)),
      token_(std::move(token)),
      interrupted_(std::move(interrupted)) {}

HttpClient::~HttpClient() {
  if (curl_->handle != nullptr) curl_easy_cleanup(curl_->handle);
}

Result<std::unique_ptr<HttpClient>> HttpClient::create(const std::string& endpoint,
                                                       std::string token,
                                                       std::function<bool()> interrupted) {
  if (!start_curl()) return io_error("The download library (libcurl) cannot be initialised.");
  const std::string origin = origin_of(endpoint);
  if (origin.empty()) {
    return invalid_argument("'" + endpoint +
                            "' is not the address of a model hub; set HF_ENDPOINT to one such as "
                            "https://huggingface.co.");
  }
  if (std::ranges::any_of(token, [](unsigned char c) { return c <= 0x20 || c >= 0x7f; })) {
    return invalid_argument(
        "HF_TOKEN contains characters that are not valid in a token; check its value.");
  }
  std::unique_ptr<HttpClient> client(
      new HttpClient(origin, std::move(token), std::move(interrupted)));
  client->curl_->handle = curl_easy_init();
  if (client->curl_->handle == nullptr)
    return out_of_memory("There is not enough memory for a download.");
  return client;
}

HttpResult HttpClient::get_once(const HttpGet& request, const std::string& url,
                                std::string& redirect) {
  CURL* const handle = curl_->handle;
  curl_easy_reset(handle);  // keeps the connection
  Transfer transfer;
  transfer.request = &request;
  transfer.interrupted = &interrupted_;
  transfer.handle = handle;
  curl_slist* headers = nullptr;
  for (const std::string& h : request.headers) headers = curl_slist_append(headers, h.c_str());
  if (!token_.empty() && origin_of(url) == origin_) {
    headers = curl_slist_append(headers, ("Authorization: Bearer " + token_).c_str());
  }
  curl_->message[0] = '\0';
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "chimere");
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, curl_->message.data());
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(handle);
  curl_slist_free_all(headers);

  HttpResult result;
  if (code == CURLE_OK) (void)begin_body(transfer);  // a response without a body
  if (const char* next = nullptr;
      curl_easy_getinfo(handle, CURLINFO_REDIRECT_URL, &next) == CURLE_OK && next != nullptr) {
    redirect = next;
  }
  result.response = std::move(transfer.response);
  if (transfer.cancelled) {
    result.status = Error{Error::Code::kCancelled, "The download was stopped."};
  } else if (!transfer.failure.ok()) {
    result.status = std::move(transfer.failure);
  } else if (code != CURLE_OK) {
    const char* why = curl_->message[0] != '\0' ? curl_->message.data() : curl_easy_strerror(code);
    result.status = io_error("The connection to " + origin_of(url) + " failed: " + why + ".");
    result.transport = true;
    result.transient = !is_lasting(code);
  }
  return result;
}

HttpResult HttpClient::get(const HttpGet& request) {
  std::string url = request.url;
  std::string linked_etag;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    std::string next;
    HttpResult result = get_once(request, url, next);
    if (const std::string etag = result.response.header("x-linked-etag"); !etag.empty()) {
      linked_etag = etag;
    }
    if (!result.status.ok() || result.response.status < 300 || result.response.status > 399) {
      if (!linked_etag.empty()) result.response.headers["x-linked-etag"] = linked_etag;
      return result;
    }
    const std::string to = origin_of(next);
    if (to.empty() || (url.starts_with("https:") && !to.starts_with("https:"))) {
      result.status = invalid_data("The host " + origin_of(url) +
                                   " redirects to an address that is not allowed.");
      return result;
    }
    url = next;
  }
  HttpResult result;
  result.status = invalid_data("The host " + origin_ + " redirects in circles.");
  return result;
}

}  // namespace chimere::hub
