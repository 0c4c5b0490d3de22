// SPDX-License-Identifier: Apache-2.0
// A service that computes spreadsheets. A workbook has memory of its own: cells, in std::pmr
// containers, come from a pool resource, formulas from a pool of slabs, and what a recalculation
// needs from a monotonic buffer. In spikes, every 3.5 s, workbooks are opened, computed some times,
// and closed after a second. One in 18 is being edited by somebody: it stays open for 8 to 24 s.
//
// Should not pay: malloc sees only chunks and slabs, which all workbooks get by the same calls.
// Whether one stays open is not known when it is loaded. Edits and their undo, which only those
// that stay have, are few.
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <list>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server.h"

template <class T>
class Pool {
  union Slot {
    Slot* next;
    alignas(T) char bytes[sizeof(T)];
  };
  static constexpr size_t kSlab = 8192 / sizeof(Slot);
  std::vector<Slot*> slabs_;
  Slot* free_ = nullptr;

 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  ~Pool() {
    for (Slot* slab : slabs_) free(slab);
  }
  template <class... A>
  T* make(A&&... a) {
    if (!free_) {
      Slot* slab = static_cast<Slot*>(malloc(kSlab * sizeof(Slot)));
      slabs_.push_back(slab);
      for (size_t i = 0; i < kSlab; ++i) slab[i].next = free_, free_ = &slab[i];
    }
    Slot* slot = free_;
    free_ = slot->next;
    return new (slot) T{std::forward<A>(a)...};
  }
  void drop(T* p) {
    Slot* slot = reinterpret_cast<Slot*>(p);
    slot->next = free_;
    free_ = slot;
  }
};

struct Expression {
  enum Op : uint32_t { kNumber, kCell, kAdd, kMultiply, kLarger } op;
  uint32_t cell;
  double value;
  Expression *left, *right;
};
struct Cell {
  double value;
  Expression* formula;
  std::pmr::string text;
};
struct Undo {
  uint32_t cell;
  double before;
  std::string text;
};

struct Workbook {
  std::pmr::unsynchronized_pool_resource memory;
  Pool<Expression> pool;
  std::pmr::unordered_map<uint32_t, Cell> cells{&memory};
  std::pmr::vector<uint32_t> formulas{&memory};  // in order of dependency
  std::deque<Undo> undo;
  int closes = 0;
  bool edited = false;

  Expression* parse(Rng& rng, uint32_t below, int depth) {
    if (depth == 0 || rng.chance(0.2)) {
      if (rng.chance(0.3)) return pool.make(Expression::kNumber, 0u, rng.unit(), nullptr, nullptr);
      return pool.make(Expression::kCell, rng.below(below), 0.0, nullptr, nullptr);
    }
    Expression* left = parse(rng, below, depth - 1);
    Expression* right = parse(rng, below, depth - 1);
    return pool.make(Expression::Op(Expression::kAdd + rng.below(3)), 0u, 0.0, left, right);
  }
  void forget(Expression* e) {
    if (!e) return;
    forget(e->left), forget(e->right), pool.drop(e);
  }
  void load(Rng& rng) {
    const uint32_t count = rng.range(4000, 15000);
    for (uint32_t id = 0; id < count; ++id) {
      Cell cell{double(rng.below(1000)), nullptr, std::pmr::string(&memory)};
      if (id > 50 && rng.chance(0.3)) {
        cell.formula = parse(rng, id, 3);
        formulas.push_back(id);
      } else if (rng.chance(0.3)) {
        cell.text.assign(rng.range(8, 60), char('a' + id % 26));
      }
      cells.emplace(id, std::move(cell));
    }
  }
  double evaluate(const Expression* e) const {
    switch (e->op) {
      case Expression::kNumber:
        return e->value;
      case Expression::kCell:
        return cells.find(e->cell)->second.value;
      case Expression::kAdd:
        return evaluate(e->left) * 0.5 + evaluate(e->right) * 0.5;
      case Expression::kMultiply:
        return evaluate(e->left) * evaluate(e->right) / 1024;
      default:
        return std::max(evaluate(e->left), evaluate(e->right));
    }
  }
  uint64_t recalculate(uint32_t part, uint32_t parts) {
    std::pmr::monotonic_buffer_resource scratch(4096);
    std::pmr::vector<std::pair<uint32_t, double>> changed(&scratch);
    for (size_t i = part; i < formulas.size(); i += parts) {
      Cell& cell = cells.find(formulas[i])->second;
      const double value = evaluate(cell.formula);
      if (value != cell.value) changed.emplace_back(formulas[i], value), cell.value = value;
    }
    uint64_t h = changed.size();
    for (auto& [id, value] : changed) h = mix(h, id + uint64_t(value));
    return h;
  }
  void edit(Rng& rng) {
    const uint32_t id = rng.below(uint32_t(cells.size()));
    Cell& cell = cells.find(id)->second;
    undo.push_back({id, cell.value, std::string(cell.text)});
    if (undo.size() > 300) undo.pop_front();
    cell.value = double(rng.below(1000));
    if (cell.formula) {
      forget(cell.formula);
      cell.formula = parse(rng, id, 3);
    } else {
      cell.text.assign(rng.range(8, 90), char('A' + id % 26));
    }
  }
  uint64_t sum() const {
    uint64_t h = 2;
    for (uint32_t id = 0; id < cells.size(); id += 3) {
      const Cell& cell = cells.find(id)->second;
      if (!cell.text.empty() && (cell.text[0] | 32) != char('a' + id % 26)) corrupt("text");
      h = mix(h, uint64_t(cell.value) + cell.text.size());
    }
    return h;
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  constexpr double kTick = 0.02;
  constexpr int kPeriod = 175;
  const int ticks = int(args.seconds / kTick);
  std::list<Workbook> open;
  uint64_t ops = 0, check = 0;
  double due = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    const int within = tick % kPeriod, wave = tick / kPeriod;
    const double size = args.wave_size(wave, 0.6, 0.4);
    for (due += args.scale * (within < 80 ? 1.85 * size : 0.04); due >= 1; due -= 1) {
      open.emplace_back();
      Workbook& book = open.back();
      book.load(rng);
      book.edited = rng.chance(1.0 / 18);
      book.closes = tick + int(book.edited ? rng.range(400, 1200) : rng.range(25, 90));
      ++ops;
    }
    for (auto book = open.begin(); book != open.end();) {
      if (book->closes <= tick) {
        check = mix(check, book->sum());
        book = open.erase(book);
        continue;
      }
      if (book->edited)
        for (int n = 0; n < 2; ++n, ++ops) book->edit(rng);
      if (!book->edited || tick % 10 == 0) check += book->recalculate(uint32_t(tick) % 24, 24);
      ++ops, ++book;
    }
  }
  for (auto book = open.begin(); book != open.end();)
    book = book->edited ? std::next(book) : open.erase(book);
  for (auto& book : open) check = mix(mix(check, book.sum()), book.undo.size());
  finish("sheet", ops, check, pace);
  return 0;
}
