// SPDX-License-Identifier: Apache-2.0
// Executes the commands of contracts/commands.def for the control socket. A statistics document is
// a snapshot, taken when the command comes and rendered piece by piece as the client reads.
#pragma once

#include "base/commands.h"
#include "telemetry/client_server.h"
#include "telemetry/stats_json.h"

namespace llamalloc {

class ControlCommands final : public Responder {
 public:
  bool begin(int client, char* line, Text* out) override;
  bool more(int client, Text* out) override;
  void end(int client) override;

 private:
  struct Document {
    ProcessSnapshot* snapshot = nullptr;
    StatsJson json;
  };
  bool begin_stats(int client, Text* out);
  bool begin_command(const CommandRow& row, int client, char* argument, Text* out);

  Document documents_[ClientServer::kClients];
};

}  // namespace llamalloc
