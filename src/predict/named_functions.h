// SPDX-License-Identifier: Apache-2.0
// What the functions of loaded modules are called, as far as a model knows them. So a thread that
// first meets a context can ask the model's names (model_evidence.h) without a file and without a
// lock.
//
//   build, offset --> module, by hash --> row, by binary search --> FrameName
//
// Modules go by their build: one that is loaded again, or elsewhere, needs nothing new. Functions
// that no name of the model leads to have no row, so there are a few hundred of 24 bytes. But where
// the model knows functions of the module that have no name, all that have one get a row: then an
// address without one is known to have none.
//
// One thread at a time adds modules, all ask. Nothing is ever removed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/arena.h"
#include "os/function_names.h"
#include "predict/model_evidence.h"

namespace llamalloc {

class NamedFunctions final : public FunctionNames {
 public:
  static constexpr size_t kMostModules = 1024;

  class Module {
   public:
    // offset: above the module's lowest address. False: it lies in no function with a name, as far
    // as there are rows.
    bool find(uint64_t offset, FrameName* out) const;
    // Of an address for which find() is false. start: of the function around it by its unwind
    // table, above the module's lowest address.
    FrameName unnamed(bool has_start, uint64_t start) const;
    bool knows_unnamed() const { return knows_unnamed_; }
    size_t rows() const { return count_; }
    bool is_consistent() const;

   private:
    friend class NamedFunctions;
    struct Row {
      uint64_t function;  // FrameName::function; 0: the model does not know it
      uint32_t begin;
      uint32_t end;
      uint32_t reach;  // the farthest end up to here
    };
    uint64_t build_ = 0;
    uint64_t low_in_file_ = 0;
    const Row* rows_ = nullptr;  // begins ascend; of those that begin at one place, ends do
    size_t count_ = 0;
    bool knows_unnamed_ = false;
    char name_[256] = {};  // ?MODULE
  };

  // scratch: memory that is given back. False: no memory.
  bool open(const ModelEvidence& evidence, MetadataArena& arena, PageSource& scratch);
  // Null: the module was not added.
  const Module* find(uint64_t build) const;
  bool is_full() const { return modules_ >= kMostModules; }

  // For os/function_names.h, which adds modules.
  Want wants(const NamedModule& module) override;
  bool counts(const char* name, size_t length) override;
  bool room_for(size_t functions) override;
  void add(uint32_t begin, uint32_t end, const char* name, size_t length) override;
  void end(bool read) override;

 private:
  using Row = Module::Row;
  static constexpr size_t kSlots = 2 * kMostModules;

  void end_group();
  Module* kept();
  void publish(const Module* module);

  const ModelEvidence* evidence_ = nullptr;
  MetadataArena* arena_ = nullptr;
  PageSource* scratch_ = nullptr;
  std::atomic<const Module*>* slots_ = nullptr;  // by build
  size_t modules_ = 0;
  // The module that is being added.
  Module next_;
  Row* made_ = nullptr;
  size_t room_ = 0, count_ = 0;
  size_t group_ = 0;          // the first row of those that begin where the last one does
  bool group_known_ = false;  // the model knows one of them
  uint32_t reach_ = 0;        // of the rows before
};

}  // namespace llamalloc
