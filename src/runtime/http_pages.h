// SPDX-License-Identifier: Apache-2.0
// The pages of contracts/http.def. What is shown is copied when the request comes and rendered
// piece by piece as the client reads; nothing is locked meanwhile.
//
//   metrics        from counters that are kept anyway (Telemetry::quick_figures)
//   stats.json     a snapshot of the heap, at most kMostSnapshots at once; heap.json as well
//   heap           a text that is part of the library; it asks for heap.json
//   heap.json?page=N   one huge page (telemetry/page_look.h), for one client at a time
//   profiles       made in memory, one at a time (profile_job.h)
//
// Who asks for more at once is told to come back: 503.
#pragma once

#include "runtime/profile_job.h"
#include "telemetry/client_server.h"
#include "telemetry/heap_map.h"
#include "telemetry/http.h"
#include "telemetry/metrics.h"
#include "telemetry/page_look.h"
#include "telemetry/stats_json.h"

namespace llamalloc {

enum class HttpPage : uint8_t {
#define HTTP_PAGE(id, path, type, parameter, help) id,
#include "contracts/http.def"
};

class HttpPages final : public Responder {
 public:
  static constexpr uint64_t kMostSeconds = 3600;  // of a profile

  // local: on a Unix socket, where a request may give any name to us.
  explicit HttpPages(bool local) : local_(local) {}
  bool is_whole(const char* text, size_t used) const override {
    return http_head_is_whole(text, used);
  }
  bool begin(int client, char* head, Text* out) override;
  bool more(int client, Text* out) override;
  Nanos wait_until(int client) const override { return documents_[client].due; }
  void refuse(Refusal why, Text* out) override;
  void end(int client) override;

 private:
  static constexpr int kMost = ClientServer::kMostClients;
  static constexpr int kMostSnapshots = 4;
  static constexpr int kNobody = -1;
  static constexpr uint64_t kMostPage = UINT64_MAX >> 21;

  // Who waits for a profile of some seconds keeps nobody from one of the whole time.
  struct Making {
    int client = kNobody;
    ProfileJob job;
  };

  struct Document {
    HttpPage page{};
    bool chunked = false;
    bool in_body = false;      // the head of the response was sent
    Making* making = nullptr;  // a profile
    Nanos due{};               // a profile: not before
    size_t sent = 0;           // of a profile, or of the heap map
    ProcessSnapshot* snapshot = nullptr;
    StatsJson json;
    HeapMapJson map;
    PageLookJson look;
    bool looks = false;  // heap_json: at one page
    Metrics metrics;
  };

  bool begin_page(int client, const HttpRequest& request, Text* out);
  bool begin_snapshot(Document* document, Text* out);
  bool begin_heap(int client, const char* query, Text* out);
  bool begin_look(int client, uint64_t page, Text* out);
  bool name_sites();
  bool more_map(Document* document, Text* out);
  bool begin_profile(int client, const char* query, bool may_wait, Text* out);
  bool more_profile(int client, Text* out);
  bool make_profile(Document* document, Text* out);
  bool add_piece(Document* document, bool more, Text* out);
  static void add_index(Text* out);

  const bool local_;
  Document documents_[kMost];
  int snapshots_ = 0;
  int look_of_ = kNobody;
  PageLook look_;
  Making whole_, window_;
  Text piece_;
};

}  // namespace llamalloc
