// SPDX-License-Identifier: Apache-2.0
// A small Lisp. All its objects (code, cons cells, environments, strings, vectors) come from one
// call site in gc_alloc and die by mark and sweep. Requests come in waves every 10 s. Answers are
// held until sent; one in 100 is kept in a global table. Collections run between requests, when the
// bytes that were allocated ask for it, so they depend on the work alone.
//
// Why it is hard: one call site makes everything, and a collection frees objects of all ages at
// once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "server.h"

enum Type : uint8_t { kCons, kString, kVector, kClosure, kSymbol };
struct Object {
  Object* next;
  Type type;
  bool marked;
  uint32_t count;  // slots, or characters
  union {
    Object* slots[1];
    char text[8];
  };
};
using Value = Object*;  // odd: an integer

inline bool is_int(Value v) {
  return reinterpret_cast<intptr_t>(v) & 1;
}
inline intptr_t to_int(Value v) {
  return reinterpret_cast<intptr_t>(v) >> 1;
}
inline Value from_int(intptr_t i) {
  return reinterpret_cast<Value>(i << 1 | 1);
}

struct Heap {
  Object* all = nullptr;
  size_t live = 0, since = 0;
  uint64_t allocated = 0, collections = 0;
} heap;
std::vector<Value*> roots;
std::vector<Value> stack;

[[gnu::noinline]] Object* gc_alloc(Type type, uint32_t count, size_t bytes) {
  const size_t size = offsetof(Object, slots) + bytes;
  auto* object = static_cast<Object*>(malloc(size));
  object->next = heap.all, object->type = type, object->marked = false, object->count = count;
  heap.all = object;
  heap.live += size, heap.since += size, ++heap.allocated;
  return object;
}
Value cons(Value car, Value cdr) {
  Value v = gc_alloc(kCons, 2, 2 * sizeof(Value));
  v->slots[0] = car, v->slots[1] = cdr;
  return v;
}
Value string(const char* p, size_t n) {
  Value v = gc_alloc(kString, uint32_t(n), n + 1);
  memcpy(v->text, p, n), v->text[n] = 0;
  return v;
}
Value vector_of(uint32_t n, Value fill) {
  Value v = gc_alloc(kVector, n, std::max(n, 1u) * sizeof(Value));
  for (uint32_t i = 0; i < n; ++i) v->slots[i] = fill;
  return v;
}
Value car(Value v) {
  return v->slots[0];
}
Value cdr(Value v) {
  return v->slots[1];
}

void mark(Value v) {
  stack.push_back(v);
  while (!stack.empty()) {
    v = stack.back();
    stack.pop_back();
    if (!v || is_int(v) || v->marked) continue;
    v->marked = true;
    if (v->type == kCons || v->type == kVector || v->type == kClosure)
      for (uint32_t i = 0; i < v->count; ++i) stack.push_back(v->slots[i]);
  }
}
size_t size_of(const Object* o) {
  const size_t slots = o->type == kString || o->type == kSymbol
                           ? o->count + 1
                           : std::max(o->count, 1u) * sizeof(Value);
  return offsetof(Object, slots) + slots;
}
void sweep() {
  for (Object** at = &heap.all; Object* o = *at;) {
    if (o->marked) {
      o->marked = false;
      at = &o->next;
    } else {
      *at = o->next;
      heap.live -= size_of(o);
      free(o);
    }
  }
  heap.since = 0, ++heap.collections;
}

std::unordered_map<std::string, Value> symbols;
Value symbol(const std::string& name) {
  Value& v = symbols[name];
  if (!v) {
    v = gc_alloc(kSymbol, uint32_t(name.size()), name.size() + 1);
    memcpy(v->text, name.c_str(), name.size() + 1);
  }
  return v;
}
Value read(const char*& p) {
  while (*p == ' ') ++p;
  if (*p == '(') {
    ++p;
    std::vector<Value> items;
    for (;;) {
      while (*p == ' ') ++p;
      if (*p == ')') break;
      items.push_back(read(p));
    }
    ++p;
    Value list = nullptr;
    for (size_t i = items.size(); i-- > 0;) list = cons(items[i], list);
    return list;
  }
  std::string token;
  while (*p && *p != ' ' && *p != '(' && *p != ')') token += *p++;
  if (token[0] >= '0' && token[0] <= '9') return from_int(atoi(token.c_str()));
  return token == "nil" ? nullptr : symbol(token);
}

Value globals;  // list of (symbol . value)
Value sIf, sFn, sPlus, sMinus, sLess, sCons, sCar, sCdr, sVec, sStr, sCat, sUpto;
Value lookup(Value name, Value env) {
  for (Value list : {env, globals})
    for (; list; list = cdr(list))
      if (car(car(list)) == name) return cdr(car(list));
  corrupt("variable");
}
Value eval(Value e, Value env) {
  for (;;) {
    if (!e || is_int(e)) return e;
    if (e->type == kSymbol) return lookup(e, env);
    Value head = car(e), rest = cdr(e);
    if (head == sIf) {
      Value test = eval(car(rest), env);
      e = test && test != from_int(0) ? car(cdr(rest)) : car(cdr(cdr(rest)));
      continue;
    }
    if (head == sFn) {
      Value f = gc_alloc(kClosure, 3, 3 * sizeof(Value));
      f->slots[0] = car(rest), f->slots[1] = car(cdr(rest)), f->slots[2] = env;
      return f;
    }
    Value a[4] = {};
    int n = 0;
    for (; rest && n < 4; rest = cdr(rest)) a[n++] = eval(car(rest), env);
    if (head == sPlus) return from_int(to_int(a[0]) + to_int(a[1]));
    if (head == sMinus) return from_int(to_int(a[0]) - to_int(a[1]));
    if (head == sLess) return from_int(to_int(a[0]) < to_int(a[1]));
    if (head == sCons) return cons(a[0], a[1]);
    if (head == sCar) return car(a[0]);
    if (head == sCdr) return cdr(a[0]);
    if (head == sUpto) {
      Value list = nullptr;
      for (intptr_t i = to_int(a[0]); i-- > 0;) list = cons(from_int(i), list);
      return list;
    }
    if (head == sVec) return vector_of(uint32_t(to_int(a[0])), a[1]);
    if (head == sStr) {
      char text[400];
      const size_t length = size_t(to_int(a[1]) % 400);
      memset(text, 'a' + int(to_int(a[0]) % 26), length);
      return string(text, length);
    }
    if (head == sCat) {
      std::string both =
          std::string(a[0]->text, a[0]->count) + std::string(a[1]->text, a[1]->count);
      return string(both.data(), both.size());
    }
    Value f = eval(head, env);
    Value inner = f->slots[2];
    int i = 0;
    for (Value p = f->slots[0]; p; p = cdr(p)) inner = cons(cons(car(p), a[i++]), inner);
    e = f->slots[1], env = inner;
  }
}
uint64_t hash(Value v, int depth = 0) {
  if (!v) return 1;
  if (is_int(v)) return uint64_t(to_int(v));
  if (v->type == kString || v->type == kSymbol) return mix_bytes(v->count, v->text, v->count);
  uint64_t h = v->type;
  if (v->type == kClosure) return 9;
  if (v->type == kCons) {
    for (; v && !is_int(v) && v->type == kCons && depth < 60; v = cdr(v))
      h = mix(h, hash(car(v), depth + 1));
    return h;
  }
  for (uint32_t i = 0; i < v->count && depth < 60; ++i) h = mix(h, hash(v->slots[i], depth + 1));
  return h;
}

struct Held {
  Value value;
  uint64_t sum;
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  sIf = symbol("if"), sFn = symbol("fn"), sPlus = symbol("+"), sMinus = symbol("-"),
  sLess = symbol("<");
  sCons = symbol("cons"), sCar = symbol("car"), sCdr = symbol("cdr"), sVec = symbol("vec"),
  sStr = symbol("str"), sCat = symbol("cat"), sUpto = symbol("upto");
  auto define = [](const char* name, const char* text) {
    Value slot = cons(symbol(name), nullptr);
    globals = cons(slot, globals);
    slot->slots[1] = eval(read(text), nullptr);
  };
  define("range", "(fn (a b) (if (< a b) (cons a (range (+ a 1) b)) nil))");
  define("map", "(fn (f l) (if l (cons (f (car l)) (map f (cdr l))) nil))");
  define("tree", "(fn (d) (if (< d 1) (str d 30) (cons (tree (- d 1)) (tree (- d 1)))))");
  define("fib", "(fn (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))");
  constexpr double kTick = 0.05;
  constexpr int kPeriod = 200, kBurst = 70;
  const int ticks = int(args.seconds / kTick);
  std::vector<std::vector<Held>> wheel(ticks + 1);
  std::vector<Held> table;
  const size_t floor = size_t(90e6 * args.scale);
  uint64_t ops = 0, check = 0;
  auto collect = [&](bool force) {
    if (!force && heap.since < std::max(floor, (heap.live - heap.since) * 12 / 10)) return;
    mark(globals);
    for (auto& [name, value] : symbols) mark(value);
    for (auto& held : wheel)
      for (auto& one : held) mark(one.value);
    for (auto& one : table) mark(one.value);
    sweep();
  };
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (Held& done : wheel[tick])
      if ((++ops & 3) == 0 && hash(done.value) != done.sum) corrupt("answer");
    std::vector<Held>().swap(wheel[tick]);
    const bool burst = tick % kPeriod < kBurst;
    const double swell = args.wave_size(tick / kPeriod, 0.8, 0.2);
    for (uint32_t n = args.count((burst ? 105 : 1) * swell); n > 0; --n) {
      char text[240];
      const uint32_t dice = rng.below(10), size = rng.range(40, 260);
      if (dice < 4)
        snprintf(text, sizeof text, "(map (fn (x) (str x (+ x %u))) (upto %u))", rng.range(80, 300),
                 size);
      else if (dice < 6)
        snprintf(text, sizeof text, "(map (fn (x) (vec %u (str x %u))) (upto %u))",
                 rng.range(2, 40), rng.range(8, 200), size);
      else if (dice < 8)
        snprintf(text, sizeof text, "(cons (fib %u) (tree %u))", rng.range(4, 8), rng.range(5, 8));
      else
        snprintf(
            text, sizeof text,
            "(map (fn (x) (fn (y) (+ x y))) (map (fn (x) (cat (str x 20) (str 3 %u))) (upto %u)))",
            rng.range(5, 150), size);
      const char* p = text;
      Value answer = eval(read(p), nullptr);
      const uint64_t sum = hash(answer);
      check = mix(check, sum);
      if (rng.below(100) == 0) {
        // The table is bounded: a late entry replaces an early one.
        if (table.size() < args.count(3000))
          table.push_back({answer, sum});
        else
          table[rng.below(table.size())] = {answer, sum};
      } else if (int until = tick + int(rng.range(6, 50)); until < ticks) {
        wheel[until].push_back({answer, sum});
      }
      ++ops;
      collect(false);
    }
    if (tick % kPeriod == kBurst + 20 || tick % kPeriod == kBurst + 55) collect(true);
  }
  wheel.clear();
  collect(true);
  for (Held& one : table)
    if (hash(one.value) != one.sum) corrupt("table");
  finish("interp", ops + heap.allocated + heap.collections, mix(check, heap.live), pace);
  return 0;
}
