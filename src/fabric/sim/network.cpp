#include "fabric/sim/network.hpp"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <sstream>

#include "base/toml.hpp"

namespace tutti::sim {
namespace {

constexpr double kLongest = 1e9;  // microseconds; longer is a mistake in the unit

Time picoseconds(double us) noexcept { return static_cast<Time>(std::llround(us * kMicrosecond)); }

/// Reads a profile's tables and remembers the first thing that is wrong with it.
class Reader {
 public:
  Reader(std::string path, const toml::table& root) : path_(std::move(path)), root_(root) {}

  bool failed() const noexcept { return !message_.empty(); }
  const std::string& message() const noexcept { return message_; }
  void complain(const std::string& text) {
    if (message_.empty()) message_ = path_ + ": " + text;
  }

  const toml::table* table(const char* name, bool required) {
    const toml::table* found = root_[name].as_table();
    if (found == nullptr && root_.contains(name))
      complain(std::string("'") + name + "' is not a table");
    if (found == nullptr && required) complain(std::string("the table [") + name + "] is missing");
    return found;
  }

  /// Every key must be one of `known`.
  void only(const toml::table& table, const char* where, std::initializer_list<const char*> known) {
    for (const auto& [key, value] : table) {
      bool found = false;
      std::string names;
      for (const char* name : known) {
        found = found || key.str() == name;
        names += (names.empty() ? "" : ", ") + std::string(name);
      }
      if (!found)
        complain("no term '" + std::string(key.str()) + "' in " + where + "; there are " + names);
    }
  }

  double number(const toml::table& table, const char* where, const char* key,
                bool required = true) {
    const toml::node* node = table.get(key);
    if (node == nullptr) {
      if (required) complain(std::string("the term '") + key + "' is missing in " + where);
      return 0;
    }
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value)) {
      complain(std::string(key) + " in " + where + " is not a number");
      return 0;
    }
    if (*value < 0)
      complain(std::string(key) + " in " + where + " is negative; a cost is 0 or more");
    if (*value > kLongest)
      complain(std::string(key) + " in " + where + " is too large (times are in microseconds)");
    return failed() ? 0 : *value;
  }

  /// false where it is not there.
  bool flag(const toml::table& table, const char* where, const char* key) {
    const toml::node* node = table.get(key);
    if (node != nullptr && !node->is_boolean())
      complain(std::string(key) + " in " + where + " is not true or false");
    return node != nullptr && node->value_or(false);
  }

  std::string text(const char* key) {
    const auto value = root_[key].value<std::string>();
    if (!value || value->empty())
      complain(std::string("'") + key + "' is missing: a text is needed");
    return value.value_or("");
  }

 private:
  std::string path_;
  const toml::table& root_;
  std::string message_;
};

void read_via(Reader& r, const toml::table& t, Network* n) {
  constexpr const char* kWhere = "[via]";
  r.only(t, kWhere, {"Tm", "Td", "Ts", "Tn", "Ta", "Tl", "Tr", "Tt_per_byte"});
  n->Tm = picoseconds(r.number(t, kWhere, "Tm"));
  n->Td = picoseconds(r.number(t, kWhere, "Td"));
  n->Ts = picoseconds(r.number(t, kWhere, "Ts"));
  n->Tn = picoseconds(r.number(t, kWhere, "Tn"));
  n->Ta = picoseconds(r.number(t, kWhere, "Ta"));
  n->Tl = picoseconds(r.number(t, kWhere, "Tl", false));
  n->Tr = picoseconds(r.number(t, kWhere, "Tr"));
  n->Tt = PerByte::microseconds(r.number(t, kWhere, "Tt_per_byte"));
}

void read_loggp(Reader& r, const toml::table& t, Network* n) {
  constexpr const char* kWhere = "[loggp]";
  r.only(t, kWhere, {"L", "o", "g", "G_per_byte", "Tr"});
  n->Tm = picoseconds(r.number(t, kWhere, "o"));
  n->Tl = picoseconds(r.number(t, kWhere, "L"));
  n->Ta = n->Tg = picoseconds(r.number(t, kWhere, "g"));
  n->Tt = PerByte::microseconds(r.number(t, kWhere, "G_per_byte"));
  n->Tr = picoseconds(r.number(t, kWhere, "Tr"));
}

void read_host(Reader& r, const toml::table& t, Network* n) {
  constexpr const char* kWhere = "[host]";
  r.only(t, kWhere,
         {"Tc_per_byte", "To", "To_per_byte", "Ti", "handlers_elsewhere", "line", "call",
          "counter_bytes", "copied_bytes"});
  n->Tc = PerByte::microseconds(r.number(t, kWhere, "Tc_per_byte"));
  n->To = picoseconds(r.number(t, kWhere, "To"));
  n->To_byte = PerByte::microseconds(r.number(t, kWhere, "To_per_byte"));
  n->Ti = picoseconds(r.number(t, kWhere, "Ti", false));
  n->handlers_elsewhere = r.flag(t, kWhere, "handlers_elsewhere");
  n->line = picoseconds(r.number(t, kWhere, "line"));
  n->call = picoseconds(r.number(t, kWhere, "call", false));
  n->counter_bytes = static_cast<std::size_t>(r.number(t, kWhere, "counter_bytes"));
  n->copied_bytes = static_cast<std::size_t>(r.number(t, kWhere, "copied_bytes"));
}

void read_topology(Reader& r, const toml::table& t, Network* n) {
  constexpr const char* kWhere = "[fat_tree]";
  r.only(t, kWhere, {"leaf_nodes", "oversubscription", "hop"});
  const double leaf = r.number(t, kWhere, "leaf_nodes");
  const double over = r.number(t, kWhere, "oversubscription");
  n->hop = picoseconds(r.number(t, kWhere, "hop"));
  if (r.failed()) return;
  if (leaf < 1 || leaf != std::floor(leaf))
    return r.complain("leaf_nodes in [fat_tree] is not a whole number above 0");
  if (over < 1 || leaf / over < 1)
    return r.complain("oversubscription in [fat_tree] must be from 1 to leaf_nodes");
  n->leaf_nodes = static_cast<int>(leaf);
  n->uplinks = static_cast<int>(leaf / over);
}

void read_node(Reader& r, const toml::table& t, Network* n) {
  constexpr const char* kWhere = "[node]";
  r.only(t, kWhere,
         {"l3", "numa", "package", "line_l3", "line_numa", "line_package", "line_far", "serve",
          "follow", "way_cache", "way_package"});
  const double l3 = r.number(t, kWhere, "l3");
  const double numa = r.number(t, kWhere, "numa");
  const double package = r.number(t, kWhere, "package");
  n->node.line_l3 = picoseconds(r.number(t, kWhere, "line_l3"));
  n->node.line_numa = picoseconds(r.number(t, kWhere, "line_numa"));
  n->node.line_package = picoseconds(r.number(t, kWhere, "line_package"));
  n->node.line_far = picoseconds(r.number(t, kWhere, "line_far"));
  n->node.serve = picoseconds(r.number(t, kWhere, "serve"));
  n->node.follow = picoseconds(r.number(t, kWhere, "follow"));
  n->node.way_cache = picoseconds(r.number(t, kWhere, "way_cache", false));
  n->node.way_package = picoseconds(r.number(t, kWhere, "way_package", false));
  if (r.failed()) return;
  const auto whole = [](double value) {
    return value >= 1 && value <= 4096 && value == std::floor(value);
  };
  if (!whole(l3) || !whole(numa) || !whole(package) || l3 > numa || numa > package)
    return r.complain(
        "l3, numa and package in [node] must be whole numbers of cores, each at least the one "
        "before");
  n->node.l3 = static_cast<int>(l3);
  n->node.numa = static_cast<int>(numa);
  n->node.package = static_cast<int>(package);
}

double probability(Reader& r, const toml::table& t, const char* key) {
  const double value = r.number(t, "[datagram]", key, false);
  if (value > 1) r.complain(std::string(key) + " in [datagram] is a probability, from 0 to 1");
  return value;
}

void read_datagrams(Reader& r, const toml::table& t, Network* n) {
  constexpr const char* kWhere = "[datagram]";
  r.only(t, kWhere, {"mtu", "loss", "duplicate", "corrupt", "reorder", "reorder_by"});
  const double mtu = r.number(t, kWhere, "mtu");
  n->loss = probability(r, t, "loss");
  n->duplicate = probability(r, t, "duplicate");
  n->corrupt = probability(r, t, "corrupt");
  n->reorder = probability(r, t, "reorder");
  n->reorder_by = picoseconds(r.number(t, kWhere, "reorder_by", false));
  if (r.failed()) return;
  if (mtu < 64 || mtu > 65536 || mtu != std::floor(mtu)) {
    return r.complain("mtu in [datagram] must be a whole number of bytes from 64 to 65536");
  }
  n->mtu = static_cast<std::size_t>(mtu);
}

}  // namespace

PerByte PerByte::microseconds(double us) noexcept {
  PerByte cost;
  cost.femtoseconds_ = static_cast<std::uint64_t>(std::llround(us * 1e9));
  return cost;
}

Status load_network(const std::string& path, Network* out, std::string* message) {
  const toml::parse_result parsed = toml::parse_file(path);
  if (!parsed) {
    std::ostringstream text;
    text << path << ":" << parsed.error().source().begin.line << ": "
         << parsed.error().description();
    *message = text.str();
    return Status::error(Code::invalid_argument, "network profile");
  }
  const toml::table& root = parsed.table();
  Reader reader(path, root);
  Network network;
  reader.only(root, "a profile",
              {"name", "source", "via", "loggp", "host", "node", "fat_tree", "datagram"});
  network.name = reader.text("name");
  network.source = reader.text("source");
  const toml::table* via = reader.table("via", false);
  const toml::table* loggp = reader.table("loggp", false);
  if (via != nullptr && loggp != nullptr)
    reader.complain("there are both of the tables [via] and [loggp]; one is needed");
  network.between_nodes = via != nullptr || loggp != nullptr;
  if (!reader.failed() && via != nullptr) read_via(reader, *via, &network);
  if (!reader.failed() && loggp != nullptr) read_loggp(reader, *loggp, &network);
  if (const toml::table* host = reader.table("host", true); host != nullptr)
    read_host(reader, *host, &network);
  if (const toml::table* node = reader.table("node", false); node != nullptr)
    read_node(reader, *node, &network);
  if (const toml::table* tree = reader.table("fat_tree", false); tree != nullptr)
    read_topology(reader, *tree, &network);
  if (const toml::table* datagram = reader.table("datagram", false); datagram != nullptr) {
    read_datagrams(reader, *datagram, &network);
  }
  if (reader.failed()) {
    *message = reader.message();
    return Status::error(Code::invalid_argument, "network profile");
  }
  *out = network;
  return Status::success();
}

}  // namespace tutti::sim
