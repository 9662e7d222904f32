// The cases, by seed and number.
#include <algorithm>
#include <random>

#include "faults/case.hpp"

namespace tutti::faults {
namespace {

using Random = std::mt19937_64;

int pick(Random& random, int first, int last) {
  return std::uniform_int_distribution<int>(first, last)(random);
}

const char* one_of(Random& random, std::vector<const char*> words) {
  return words[static_cast<std::size_t>(pick(random, 0, static_cast<int>(words.size()) - 1))];
}

std::string rule(const char* action, const char* op, int at, int victim, const char* more = "") {
  return std::string(action) + ":op=" + op + ":at=" + std::to_string(at) +
         ":rank=" + std::to_string(victim) + more;
}

/// An algorithm of the list that `fits`. Where it cannot run, the usual one does.
template <class Fits>
test::Combination algorithm(Random& random, Fits fits) {
  std::vector<test::Combination> some;
  for (const auto& one : test::combinations()) {
    if (fits(*one.algorithm)) some.push_back(one);
  }
  return some[static_cast<std::size_t>(pick(random, 0, static_cast<int>(some.size()) - 1))];
}

bool any(const Algorithm& one) { return std::string(one.name) != "dcp"; }
bool casts(const Algorithm& one) { return one.casts; }
bool takes_blocks(const Algorithm& one) { return one.items != nullptr && !one.casts && any(one); }
bool attaches(const Algorithm& one) { return std::string(one.name).starts_with("cma"); }
bool writes_by_kernel(const Algorithm& one) { return std::string(one.name) == "cma_write"; }
bool crosses_nodes(const Algorithm& one) {
  Shape shape;
  shape.coll = one.coll;
  shape.size = 4;
  shape.mapped = false;
  shape.mail = shape.acks = shape.segments = shape.alone = true;
  shape.bytes = 240;
  return any(one) && !one.casts && one.restriction(shape, Parameters{}) == nullptr;
}

void spread(Case& c, Random& random) {
  c.world = World::nodes;
  static const std::vector<std::vector<int>> layouts = {{0, 1},       {0, 1, 2},    {0, 1, 2, 3},
                                                        {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}};
  c.nodes =
      layouts[static_cast<std::size_t>(pick(random, 0, static_cast<int>(layouts.size()) - 1))];
  c.ranks = static_cast<int>(c.nodes.size());
}

void choose(Case& c, Random& random) {
  c.ranks = pick(random, 2, 4);
  c.work = static_cast<Work>(pick(random, 0, 2));
  c.combination = algorithm(random, any);
  c.count = pick(random, 0, 1) == 0 ? 60 : 20'000;
  c.settings.arena = std::size_t{128} << 20;
  c.settings.deadline_s = 30;
  c.settings.spin_us = 100;
  c.settings.log = LogLevel::quiet;
  c.settings.segment = pick(random, 0, 1) == 0 ? SegmentKind::memfd : SegmentKind::posix;
}

void injected(Case& c, Random& random, std::vector<const char*> ops, const char* code, int last) {
  spread(c, random);
  c.combination = algorithm(random, crosses_nodes);
  c.victim = pick(random, 0, c.ranks - 1);
  c.settings.fault = rule("fail", one_of(random, std::move(ops)), pick(random, 1, last), c.victim,
                          (std::string(":code=") + code).c_str());
}

void memory(Case& c, Random& random) {
  if (pick(random, 0, 2) == 0)
    return injected(c, random, {"expose", "put", "get"}, "no_memory", 12);
  c.count = 50'000;
  c.combination = algorithm(random, takes_blocks);
  c.victim = pick(random, 0, c.ranks - 1);
  // The first ones make the job.
  c.settings.fault = rule("fail", "reserve", pick(random, 3, 6), c.victim, ":count=0");
}

void descriptors(Case& c, Random& random) {
  c.victim = pick(random, 0, c.ranks - 1);
  c.few_descriptors = true;
  c.expected = Outcome::none;
  if (pick(random, 0, 1) == 0) return;
  // Another one dies meanwhile: to be noticed without a descriptor too.
  c.expected = Outcome::lost;
  c.settings.fault = rule("kill", "any", pick(random, 60, 120), (c.victim + 1) % c.ranks);
}

void puts(Case& c, Random& random) { injected(c, random, {"put", "get"}, "internal", 12); }

void permission(Case& c, Random& random) {
  if (pick(random, 0, 1) == 0)
    return injected(c, random, {"expose", "attach", "get", "put"}, "not_permitted", 8);
  c.victim = pick(random, 0, c.ranks - 1);
  c.no_attach = true;
  c.combination = algorithm(random, attaches);
  c.count = 100'000;
}

void killed(Case& c, Random& random) {
  c.expected = Outcome::lost;
  c.victim = pick(random, 0, c.ranks - 1);
  c.settings.fault = rule("kill", "any", pick(random, 12, 90), c.victim);
}

void stopped(Case& c, Random& random) {
  c.victim = pick(random, 0, c.ranks - 1);
  c.stops = true;
  c.expected = Outcome::none;
  if (pick(random, 0, 1) == 0) return;
  c.expected = Outcome::late;
  c.settings.deadline_s = 0.15;
}

void cut(Case& c, Random& random) {
  spread(c, random);
  c.victim = pick(random, 0, c.ranks - 1);
  if (pick(random, 0, 1) == 0) {
    c.cut = true;
    c.expected = Outcome::lost;
    return;
  }
  // What the kernel says that it has copied is not lost.
  if (writes_by_kernel(*c.combination.algorithm)) c.combination = algorithm(random, crosses_nodes);
  c.settings.deadline_s = 0.3;
  c.settings.fault = rule("drop", "put", pick(random, 1, 30), c.victim, ":count=0");
  c.expected = Outcome::late;
}

void late(Case& c, Random& random) {
  if (pick(random, 0, 1) == 0) spread(c, random);
  c.victim = pick(random, 0, c.ranks - 1);
  c.sleeps_ms = pick(random, 100, 600);
  c.expected = Outcome::none;
}

void messages(Case& c, Random& random) {
  c.work = Work::messages;
  c.ranks = 2;
  c.victim = pick(random, 0, 1);
  const int sizes[] = {100, 20'000, 300'000};
  c.count = static_cast<std::size_t>(sizes[pick(random, 0, 2)]);
  c.settings.rendezvous = static_cast<Rendezvous>(pick(random, 0, 3));
  c.settings.fault = rule("kill", "any", pick(random, 8, 40), c.victim);
  c.expected = Outcome::lost;
}

void dedicated(Case& c, Random& random) {
  c.world = World::dedicated;
  c.work = static_cast<Work>(pick(random, 0, 1));
  c.ranks = pick(random, 2, 3);
  c.processors = pick(random, 1, 2);
  if (c.processors == 2) c.ranks = 4;
  const bool app = pick(random, 0, 1) == 0;
  c.victim = app ? pick(random, 0, c.ranks - 1) : c.ranks + pick(random, 0, c.processors - 1);
  c.combination = test::combinations().front();
  for (const auto& one : test::combinations()) {
    if (one.algorithm->coll == Coll::allreduce && std::string(one.algorithm->name) == "dcp")
      c.combination = one;
  }
  c.expected = Outcome::lost;
  c.settings.fault = rule("kill", app ? "signal" : "put", pick(random, 20, 150), c.victim);
}

void multicast(Case& c, Random& random) {
  spread(c, random);
  c.work = Work::blocking;
  c.combination = algorithm(random, casts);
  c.count = pick(random, 0, 1) == 0 ? 60 : 2'000;
  c.settings.net_interface = "lo";
  c.settings.multicast = Switch::on;
  c.victim = pick(random, 0, c.ranks - 1);
  if (pick(random, 0, 2) == 0) {
    c.settings.fault = rule("fail", "put", pick(random, 1, 12), c.victim, ":code=internal");
    return;
  }
  c.expected = Outcome::none;  // datagrams may be lost, doubled and damaged
  const char* const action = one_of(random, {"drop", "duplicate", "corrupt"});
  const char* const op =
      std::string(action) == "duplicate" ? "cast" : one_of(random, {"cast", "receive"});
  c.settings.fault = rule(action, op, pick(random, 1, 5), c.victim, ":count=0:every=3");
}

struct Kind {
  const char* name;
  void (*make)(Case&, Random&);
};
constexpr Kind kKinds[] = {{"memory", memory},      {"descriptors", descriptors},
                           {"puts", puts},          {"permission", permission},
                           {"killed", killed},      {"stopped", stopped},
                           {"network cut", cut},    {"late start", late},
                           {"messages", messages},  {"dedicated processors", dedicated},
                           {"multicast", multicast}};

}  // namespace

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

Case make_case(std::uint64_t seed, std::uint64_t number, const std::string& only) {
  Random random(seed * 1'000'003 + number);
  const Kind* kind = &kKinds[number % std::size(kKinds)];
  for (const Kind& one : kKinds) {
    if (only == one.name) kind = &one;
  }
  Case c;
  c.kind = kind->name;
  choose(c, random);
  kind->make(c, random);
  if (c.work != Work::messages) c.settings.algorithm = c.combination.forced;
  return c;
}

std::string text_of(const Case& c) {
  static const char* const works[] = {"blocking", "waiting", "testing", "messages"};
  std::string text = c.kind + ": " + std::to_string(c.ranks) + " ranks, " +
                     works[static_cast<std::size_t>(c.work)];
  if (c.work != Work::messages) text += ", " + c.combination.forced;
  text += ", " + std::to_string(c.count) + ", victim " + std::to_string(c.victim);
  for (std::size_t i = 0; i < c.nodes.size(); ++i)
    text += (i == 0 ? ", nodes " : " ") + std::to_string(c.nodes[i]);
  if (!c.settings.fault.empty()) text += ", " + c.settings.fault;
  if (c.stops)
    text += ", stopped with a deadline of " + std::to_string(c.settings.deadline_s) + " s";
  if (c.few_descriptors) text += ", no descriptors";
  if (c.no_attach) text += ", no cross-memory attach";
  if (c.cut) text += ", network gone";
  if (c.sleeps_ms != 0) text += ", late by " + std::to_string(c.sleeps_ms) + " ms";
  return text;
}

}  // namespace tutti::faults
