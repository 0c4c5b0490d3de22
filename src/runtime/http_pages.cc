// SPDX-License-Identifier: Apache-2.0
#include "runtime/http_pages.h"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/background_state.h"
#include "runtime/figures.h"
#include "runtime/learning.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

struct PageRowOfHttp {
  HttpPage id;
  const char* path;
  const char* type;
  const char* parameter;
  const char* help;
};
constexpr PageRowOfHttp kPages[] = {
#define HTTP_PAGE(id, path, type, parameter, help) {HttpPage::id, path, type, parameter, help},
#include "contracts/http.def"
};

const PageRowOfHttp* find_page(const char* path) {
  for (const PageRowOfHttp& row : kPages)
    if (strcmp(path, row.path) == 0) return &row;
  return nullptr;
}

const PageRowOfHttp& row(HttpPage page) {
  return kPages[static_cast<int>(page)];
}

ProfileKind kind_of(HttpPage page) {
  switch (page) {
    case HttpPage::heap:
      return ProfileKind::heap;
    case HttpPage::allocs:
      return ProfileKind::allocs;
    case HttpPage::pinned:
      return ProfileKind::pinned;
    default:
      return ProfileKind::lifetimes;
  }
}

Metrics current_metrics() {
  uint64_t predicted[kLifetimeClasses];
  const bool placement = process.placement_on.load(std::memory_order_relaxed);
  telemetry.count_predicted(predicted);
  const FromSystem system = read_system(true);
  return {telemetry.quick_figures(process.threads.in_use()),
          predicted,
          {.start_seconds = process.birth,
           .version = LLAMALLOC_VERSION,
           .hugepages = system.hugepages,
           .model = process.model_state,
           .learning = is_learning(),
           .placement = placement,
           .sampling = process.profiler.on(),
           .sample_interval = process.profiler.interval(),
           .charge = system.charge}};
}

// In a page; only what cannot end the text or begin a tag.
void add_html(const char* text, Text* out) {
  for (const char* c = text; *c; ++c) out->add("%c", strchr("<>&\"'", *c) != nullptr ? '_' : *c);
}

}  // namespace

void HttpPages::refuse(Refusal why, Text* out) {
  if (why == Refusal::silent)
    add_http_error(HttpStatus::timeout, "no request came within a second", out);
  else
    add_http_error(HttpStatus::forbidden, "this socket belongs to another user", out);
}

bool HttpPages::begin(int client, char* head, Text* out) {
  HttpRequest request;
  const size_t length = strlen(head);
  documents_[client] = {};
  if (!http_head_is_whole(head, length) && length >= ClientServer::kLongestLine)
    return add_http_error(HttpStatus::too_large, "the head of the request is too long", out), false;
  const HttpStatus status = parse_http(head, local_, &request);
  if (status == HttpStatus::not_allowed)
    return add_http_error(status, "GET and HEAD only", out), false;
  if (status == HttpStatus::forbidden)
    return add_http_error(status, "ask by address, or as localhost", out), false;
  if (status != HttpStatus::ok)
    return add_http_error(status, "this is no HTTP request", out), false;
  return begin_page(client, request, out);
}

bool HttpPages::begin_page(int client, const HttpRequest& request, Text* out) {
  Document& document = documents_[client];
  const PageRowOfHttp* found = find_page(request.path);
  if (found == nullptr)
    return add_http_error(HttpStatus::not_found, "no such page; / lists them", out), false;
  document.page = found->id;
  document.chunked = request.chunked;
  const bool compressed = found->id == HttpPage::heap_map;
  if (!request.wants_body)
    return add_http_head(HttpStatus::ok, found->type, request.chunked, out, compressed), false;
  switch (found->id) {
    case HttpPage::index:
      piece_.clear();
      add_index(&piece_);
      add_http_head(HttpStatus::ok, found->type, document.chunked, out);
      return add_piece(&document, false, out);
    case HttpPage::metrics:
      document.metrics = current_metrics();
      break;
    case HttpPage::stats:
      return begin_snapshot(&document, out);
    case HttpPage::heap_map:
      break;
    case HttpPage::heap_json:
      return begin_heap(client, request.query, out);
    default:
      return begin_profile(client, request.query, found->parameter[0] != 0, out);
  }
  add_http_head(HttpStatus::ok, found->type, document.chunked, out, compressed);
  return true;
}

bool HttpPages::begin_snapshot(Document* document, Text* out) {
  if (snapshots_ == kMostSnapshots)
    return add_http_error(HttpStatus::busy, "others are reading the statistics", out), false;
  document->snapshot = take_process_snapshot(read_system(document->page == HttpPage::stats));
  if (document->snapshot == nullptr)
    return add_http_error(HttpStatus::busy, "out of memory", out), false;
  ++snapshots_;
  document->json = StatsJson(*document->snapshot);
  document->map = HeapMapJson(*document->snapshot);
  add_http_head(HttpStatus::ok, row(document->page).type, document->chunked, out);
  return true;
}

bool HttpPages::begin_heap(int client, const char* query, Text* out) {
  uint64_t page;
  bool absent;
  if (!http_number(query, "page", kMostPage, &page, &absent))
    return add_http_error(HttpStatus::bad_request, "page: its address / 2 MiB", out), false;
  return absent ? begin_snapshot(&documents_[client], out) : begin_look(client, page, out);
}

bool HttpPages::begin_look(int client, uint64_t page, Text* out) {
  Document& document = documents_[client];
  if (look_of_ != kNobody)
    return add_http_error(HttpStatus::busy, "another page is being looked at", out), false;
  if (!look_.copy_page(process.heap, page))
    return add_http_error(HttpStatus::not_found, "this huge page holds nothing now", out), false;
  if (!name_sites()) return add_http_error(HttpStatus::busy, "out of memory", out), false;
  look_of_ = client;
  document.looks = true;
  document.look = PageLookJson(look_);
  add_http_head(HttpStatus::ok, row(document.page).type, document.chunked, out);
  return true;
}

bool HttpPages::name_sites() {
  if (!look_.find_sites(process.heap, process.profiler, process.system)) return false;
  LockGuard guard(background.work_lock);
  Symboliser* symbols = background.ensure_symboliser();
  if (symbols == nullptr) return false;
  FrameNamesOf<Symboliser> names(*symbols);
  return process.profiler.with_names(names, [this](const NamedFrames& named) {
    look_.take_names(named, process.profiler.stacks());
  });
}

bool HttpPages::begin_profile(int client, const char* query, bool may_wait, Text* out) {
  uint64_t seconds = 0;
  bool absent = true;
  if (may_wait && !http_number(query, "seconds", kMostSeconds, &seconds, &absent))
    return add_http_error(HttpStatus::bad_request, "seconds: a number up to 3600", out), false;
  Making& making = absent ? whole_ : window_;
  if (making.client != kNobody)
    return add_http_error(HttpStatus::busy, "another profile is being made", out), false;
  making.client = client;
  documents_[client].making = &making;
  documents_[client].due = process.system.now() + Nanos::seconds(static_cast<int64_t>(seconds));
  if (!absent && !making.job.open_window())
    return add_http_error(HttpStatus::busy, "out of memory", out), false;
  return true;
}

bool HttpPages::more(int client, Text* out) {
  Document& document = documents_[client];
  piece_.clear();
  switch (document.page) {
    case HttpPage::index:
      return false;
    case HttpPage::metrics:
      return add_piece(&document, document.metrics.add_next(&piece_), out);
    case HttpPage::stats:
      return add_piece(&document, document.json.add_next(&piece_), out);
    case HttpPage::heap_map:
      return more_map(&document, out);
    case HttpPage::heap_json:
      return add_piece(
          &document,
          document.looks ? document.look.add_next(&piece_) : document.map.add_next(&piece_), out);
    default:
      return more_profile(client, out);
  }
}

bool HttpPages::more_map(Document* document, Text* out) {
  size_t bytes = kHeapMapPageBytes - document->sent;
  if (bytes > Text::kRoom / 2) bytes = Text::kRoom / 2;
  piece_.append(reinterpret_cast<const char*>(kHeapMapPage) + document->sent, bytes);
  document->sent += bytes;
  return add_piece(document, document->sent < kHeapMapPageBytes, out);
}

bool HttpPages::more_profile(int client, Text* out) {
  Document& document = documents_[client];
  if (process.system.now() < document.due) return true;
  if (!document.in_body) return make_profile(&document, out);
  size_t bytes = 0;
  const BodySink& body = document.making->job.body();
  const char* const data = body.at(document.sent, &bytes);
  if (bytes > Text::kRoom / 2) bytes = Text::kRoom / 2;
  piece_.append(data, bytes);
  document.sent += bytes;
  return add_piece(&document, document.sent < body.size(), out);
}

bool HttpPages::make_profile(Document* document, Text* out) {
  ProfileJob& job = document->making->job;
  if (!job.make(kind_of(document->page))) {
    const bool large = job.body().is_full();
    add_http_error(large ? HttpStatus::failed : HttpStatus::busy,
                   large ? "the profile is larger than 64 MiB; have it written to a file with the "
                           "command `profile` of the control socket"
                         : "out of memory",
                   out);
    return false;
  }
  document->in_body = true;
  add_http_head(HttpStatus::ok, row(document->page).type, document->chunked, out);
  return true;
}

// piece_, and the end of the body after the last one.
bool HttpPages::add_piece(Document* document, bool more, Text* out) {
  add_http_piece(piece_.data(), piece_.size(), document->chunked, out);
  if (!more && document->chunked) out->append(kHttpLastChunk, sizeof(kHttpLastChunk) - 1);
  return more;
}

void HttpPages::end(int client) {
  Document& document = documents_[client];
  if (document.snapshot != nullptr) {
    telemetry.give(document.snapshot);
    --snapshots_;
  }
  document.snapshot = nullptr;
  if (look_of_ == client) look_of_ = kNobody;
  if (document.making == nullptr) return;
  document.making->job.clear();
  document.making->client = kNobody;
  document.making = nullptr;
}

void HttpPages::add_index(Text* out) {
  out->add("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>");
  add_html(program_invocation_short_name, out);
  out->add(
      "</title><style>body{font:16px sans-serif;margin:2em;max-width:50em}td{padding:.2em 1em .2em "
      "0}</style><h1>");
  add_html(program_invocation_short_name, out);
  out->add(" (%d)</h1><p>llamalloc %s</p><table>", getpid(), LLAMALLOC_VERSION);
  for (const PageRowOfHttp& page : kPages)
    out->add("<tr><td><a href=\"%s\">%s%s%s</a><td>%s", page.path, page.path,
             page.parameter[0] != 0 ? "?" : "", page.parameter, page.help);
  out->add("</table></html>\n");
}

}  // namespace llamalloc
